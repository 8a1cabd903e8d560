package weir

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-dev/weir/go/httplimit"
)

// ErrClosed is the error of a decision after Close.
var ErrClosed = errors.New("the limiter is closed")

// errNotMade is the error of a Limiter that is nil or empty.
var errNotMade = errors.New("the Limiter is nil or empty; make it with NewMemory, NewRedis or NewRemote")

// Limiter decides requests. It is safe for concurrent use, and a [httplimit.Decider]. A nil or empty Limiter refuses every request.
type Limiter struct {
	decider httplimit.Decider
	gate    *httplimit.Gate
	timeout time.Duration // of a decision; 0 if it ends with its context
	log     *slog.Logger

	closed   atomic.Bool
	closing  sync.Mutex // so that no check begins to outlast its context while Close waits for such checks
	stop     context.CancelFunc
	work     context.Context //nolint:containedctx // of the tasks, until Close
	tasks    sync.WaitGroup
	checks   sync.WaitGroup // those that outlast their contexts
	closings []func() error
}

// newLimiter returns a Limiter without a decider.
func newLimiter(o *options) *Limiter {
	l := &Limiter{log: o.log}
	l.work, l.stop = context.WithCancel(context.Background())
	return l
}

// NewRemote returns a Limiter that lets another one decide: `weir serve` or a limiter of a cluster at this URL, for example "http://weir:8080". The
// option Domain is required. While that limiter cannot be reached, requests are served and not counted, unless the Gate has
// [httplimit.FailClosed].
func NewRemote(url string, list ...Option) (*Limiter, error) {
	o, err := newOptions(append([]Option{Timeout(200 * time.Millisecond)}, list...))
	if err != nil {
		return nil, err
	}
	if o.domain == "" {
		return nil, errors.New("the option Domain is missing: set it to the namespace of the policies that apply to this program")
	}
	remote, err := httplimit.NewRemote(url, httplimit.Timeout(o.timeout))
	if err != nil {
		return nil, err
	}
	l := newLimiter(&o)
	l.decider = remote
	l.onClose(func() error { remote.Close(); return nil })
	l.open(&o, o.domain)
	return l, nil
}

// open makes l ready to decide requests of a domain.
func (l *Limiter) open(o *options, domain string) {
	var decider httplimit.Decider = l
	if _, reads := l.decider.(httplimit.LineReader); reads {
		decider = lineReader{l}
	}
	l.gate = httplimit.NewGate(decider, domain, append([]httplimit.Option{httplimit.Log(o.log)}, o.gate...)...)
}

// lineReader is a Limiter with an engine in this process.
type lineReader struct{ *Limiter }

func (lineReader) ReadsHeaderLines() {}

// Handler returns a handler that serves the requests which the policies allow with next, and answers the others, see [httplimit.Middleware]. If next is nil,
// it is http.DefaultServeMux.
func (l *Limiter) Handler(next http.Handler, options ...httplimit.HTTPOption) http.Handler {
	return httplimit.Middleware(l.Gate(), options...)(next)
}

// Gate returns the gate for other servers, for example gRPC with package grpclimit.
func (l *Limiter) Gate() *httplimit.Gate {
	if l == nil {
		return nil
	}
	return l.gate
}

// Check decides one request. If ctx ends first, the error is that of ctx, and the request may have been counted.
func (l *Limiter) Check(ctx context.Context, c *httplimit.Check) (httplimit.Answer, error) {
	switch {
	case l == nil || l.decider == nil:
		return httplimit.Answer{}, errNotMade
	case c == nil:
		return httplimit.Answer{}, errors.New("the check is nil")
	case ctx == nil:
		return httplimit.Answer{}, errors.New("the context is nil")
	case l.closed.Load():
		return httplimit.Answer{}, ErrClosed
	case ctx.Err() != nil:
		return httplimit.Answer{}, ctx.Err()
	}
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < l.timeout {
		return l.checkUntil(ctx, *c)
	}
	return l.decider.Check(ctx, c)
}

// checkUntil returns at the end of ctx. Calls of several requests share a round trip to Redis, so that the context of one must not end it.
func (l *Limiter) checkUntil(ctx context.Context, c httplimit.Check) (httplimit.Answer, error) {
	type outcome struct {
		answer httplimit.Answer
		err    error
	}
	c.Request.ReadHeaders() // the check can go on while the caller changes its request
	decided := make(chan outcome, 1)
	if !l.goCheck(func() {
		answer, err := l.decider.Check(ctx, &c)
		decided <- outcome{answer, err}
	}) {
		return httplimit.Answer{}, ErrClosed
	}
	select {
	case d := <-decided:
		return d.answer, d.err
	case <-ctx.Done():
		return httplimit.Answer{}, fmt.Errorf("no decision yet: %w", ctx.Err())
	}
}

// Close ends the tasks of the Limiter and its connections, and removes its metrics. Later decisions are [ErrClosed], which refuses requests. Further
// calls do nothing.
func (l *Limiter) Close() error {
	if l == nil || l.stop == nil {
		return nil
	}
	l.closing.Lock()
	wasClosed := l.closed.Swap(true)
	l.closing.Unlock()
	if wasClosed {
		return nil
	}
	l.stop()
	l.tasks.Wait()
	var errs []error
	for _, f := range slices.Backward(l.closings) {
		errs = append(errs, f())
	}
	l.checks.Wait()
	return errors.Join(errs...)
}

// goCheck runs a check that can outlast its context. It returns false, and runs nothing, after Close.
func (l *Limiter) goCheck(check func()) bool {
	l.closing.Lock()
	defer l.closing.Unlock()
	if l.closed.Load() {
		return false
	}
	l.checks.Go(check)
	return true
}

func (l *Limiter) onClose(f func() error) { l.closings = append(l.closings, f) }

// run runs a task until Close.
func (l *Limiter) run(task func(context.Context)) { l.tasks.Go(func() { task(l.work) }) }

// register registers the metrics of own as one collector, so that those of two limiters are an error and no panic.
func (l *Limiter) register(own *prometheus.Registry, with prometheus.Registerer) error {
	if with == nil {
		return nil
	}
	if err := with.Register(own); err != nil {
		return fmt.Errorf("the registry of the option Metrics has the metrics of a Limiter already; "+
			"wrap it for each with prometheus.WrapRegistererWith and a label: %w", err)
	}
	l.onClose(func() error { with.Unregister(own); return nil })
	return nil
}
