package middleware

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"net/http"
	"slices"
	"time"

	"golang.org/x/time/rate"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/reply"
)

// Decider decides requests. An [engine.Engine] is one, and so is a [Remote]. One that could not be asked says so with an
// [UnreachableError]; whatever else it returns is its answer, and obeyed.
type Decider interface {
	Check(ctx context.Context, c *engine.Check) (engine.Answer, error)
}

// Gate asks a Decider about requests and does what it says, whatever the requests come over: several servers of a
// program may share one. It is safe for concurrent use.
type Gate struct {
	decider  Decider
	domain   string
	style    reply.Style
	maxDelay time.Duration
	closed   bool
	observe  func(context.Context, *engine.Check, engine.Answer, error)
	log      *slog.Logger
	warning  rate.Sometimes
}

// warnEvery bounds how often a Gate says that it gets no decisions: every request may be without one.
const warnEvery = 10 * time.Second

// Option changes how a Gate works.
type Option func(*Gate)

// Style is how clients are told of their limits, [reply.RateLimitHeaders] unless given.
func Style(s reply.Style) Option { return func(g *Gate) { g.style = s } }

// MaxDelay bounds how long a request waits for its turn under a LeakyBucket. One that would have to wait longer is denied
// at once and told when to come back; its units are counted all the same, for nobody knows the delay before they are.
// Without this option a request waits as long as the policy's burst lets it. Nobody waits beyond the deadline of the
// request's context.
func MaxDelay(d time.Duration) Option { return func(g *Gate) { g.maxDelay = d } }

// FailClosed refuses requests while the Decider cannot be reached. Without it they pass, uncounted: a limiter protects
// against too much, and its loss is no reason to serve nothing. What policies say for the loss of their counters
// (onStoreFailure) is the Decider's answer, and obeyed with this option and without.
func FailClosed() Option { return func(g *Gate) { g.closed = true } }

// Observe is told of every answer before it is acted upon, and of every failure: for metrics and logs. It is called from
// many goroutines. A request that waits too long, see [MaxDelay], is observed as denied.
func Observe(f func(context.Context, *engine.Check, engine.Answer, error)) Option {
	return func(g *Gate) { g.observe = f }
}

// Log is where the Gate says, at most every 10 s, that it gets no decisions; [slog.Default] unless given.
func Log(log *slog.Logger) Option { return func(g *Gate) { g.log = log } }

// NewGate returns a Gate for requests of domain, a policy's namespace. It panics if domain is empty: no policy would ever
// match.
func NewGate(d Decider, domain string, options ...Option) *Gate {
	if domain == "" {
		panic("middleware: NewGate without a domain: name the namespace whose policies apply")
	}
	g := &Gate{
		decider: d, domain: domain, style: reply.RateLimitHeaders, maxDelay: math.MaxInt64, log: slog.Default(),
		observe: func(context.Context, *engine.Check, engine.Answer, error) {},
		warning: rate.Sometimes{Interval: warnEvery},
	}
	for _, option := range options {
		option(g)
	}
	return g
}

// Enter asks about c, sets the client's rate-limit fields and waits until the request's turn. It returns nil when the
// request is to be served, a *[RefusalError] when it is not, and the error of ctx when nobody waits for it any more.
//
// A check without domain is of the Gate's. One of cost 0 passes unasked; a negative cost is 1, for no request may take
// units back.
func (g *Gate) Enter(ctx context.Context, c *engine.Check, fields http.Header) error {
	if c.Cost == 0 {
		return nil
	}
	c.Cost = min(max(c.Cost, 1), limiter.MaxUnits)
	if c.Request.Domain == "" {
		c.Request.Domain = g.domain
	}
	answer, err := g.decider.Check(ctx, c)
	if patience := g.patience(ctx); answer.Delay > patience {
		answer = denyDelayed(answer, patience)
	}
	g.observe(ctx, c, answer, err)
	if err != nil {
		return g.fail(ctx, err)
	}
	if err := g.style.SetHeaders(fields, &answer, time.Now()); err != nil {
		g.warn(ctx, "a request is answered without rate-limit headers", err)
	}
	if !answer.Allowed {
		return &RefusalError{Problem: reply.Denied(&answer), Answer: answer}
	}
	return wait(ctx, answer.Delay)
}

// patience is how long a request may wait for its turn.
func (g *Gate) patience(ctx context.Context) time.Duration {
	if deadline, ok := ctx.Deadline(); ok {
		return min(g.maxDelay, time.Until(deadline))
	}
	return g.maxDelay
}

// fail decides a request that the Decider has not allowed or denied.
func (g *Gate) fail(ctx context.Context, err error) error {
	if gone := ctx.Err(); gone != nil {
		return gone
	}
	if _, unreachable := errors.AsType[*UnreachableError](err); unreachable && !g.closed {
		g.warn(ctx, "requests pass uncounted: the limiter cannot be reached", err)
		return nil
	}
	g.warn(ctx, "requests are refused: there is no decision on them", err)
	return &RefusalError{Problem: problemOf(err), cause: err}
}

func (g *Gate) warn(ctx context.Context, what string, err error) {
	g.warning.Do(func() { g.log.WarnContext(ctx, what, "error", err) })
}

// denyDelayed is a, an allowed answer, with every rule denying that makes the request wait longer than patience: until then
// the client may as well wait itself.
func denyDelayed(a engine.Answer, patience time.Duration) engine.Answer {
	a.Allowed, a.Delay, a.Results = false, 0, slices.Clone(a.Results)
	for i := range a.Results {
		if r := &a.Results[i]; r.Delay > patience && !r.Rule.Shadow {
			r.Allowed, r.RetryAfter, r.Delay = false, r.Delay, 0
		}
	}
	slices.SortStableFunc(a.Results, func(x, y engine.Result) int {
		if x.Rule.Shadow || y.Rule.Shadow { // they are last already
			return 0
		}
		return limiter.CompareStrictness(x.Decision, y.Decision)
	})
	return a
}

func wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
