package decisionlog

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/engine"
)

const (
	// queued is the number of records that wait to be written.
	queued = 4096
	// queuedSamples is the number of waiting records from which on samples are dropped: the rest of the queue is for denials.
	queuedSamples = queued / 2
	// stopTimeout bounds the time that queued records take to be written when the process ends.
	stopTimeout = time.Second
)

// Identifiers is how identifiers appear in records.
type Identifiers string

// The values of Identifiers.
const (
	Counted Identifiers = "Counted" // as they are counted: secrets are hashed
	Hashed  Identifiers = "Hashed"  // all are hashed
	Omitted Identifiers = "Omitted"
)

// Options of a Log.
type Options struct {
	// DenialsPerSecond is the number of denials that are logged in a second, which can be 0.
	DenialsPerSecond int64
	// SampleOneIn logs one in so many of the other decisions, unless it is 0.
	SampleOneIn int64
	// Identifiers is how identifiers appear in records.
	Identifiers Identifiers
	// HashKey hashes identifiers. It is required for Hashed.
	HashKey *limiter.HashKey
	// Handler writes the log. It is required if anything is logged.
	Handler slog.Handler
}

// Log is a log of decisions. It is an engine.Observer.
type Log struct {
	options Options
	queue   chan Record
	denials perSecond
	written prometheus.Counter
	// Denials over the rate, and records that did not fit into the queue.
	overRate, overQueue prometheus.Counter

	lock      sync.Mutex
	followers atomic.Pointer[[]*Follower] // replaced under the lock; nil without followers
}

// New returns a Log, and registers its metrics. Run writes it.
func New(o Options, registry prometheus.Registerer) (*Log, error) {
	switch {
	case o.DenialsPerSecond < 0 || o.SampleOneIn < 0:
		return nil, fmt.Errorf("rates of the decision log must not be negative: %d denials per second, one in %d", o.DenialsPerSecond, o.SampleOneIn)
	case o.Identifiers != Counted && o.Identifiers != Hashed && o.Identifiers != Omitted:
		return nil, fmt.Errorf("%q is invalid: must be %s, %s or %s", o.Identifiers, Counted, Hashed, Omitted)
	case o.Identifiers == Hashed && o.HashKey == nil:
		return nil, fmt.Errorf("%s requires a hash key", Hashed)
	}
	dropped := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "weir_decision_log_dropped_total",
		Help: "Decisions that should have been logged and were not, because of --decision-log-denials (reason rate), or because the log is " +
			"written too slowly (reason queue).",
	}, []string{"reason"})
	l := &Log{
		options: o, queue: make(chan Record, queued), denials: perSecond{most: o.DenialsPerSecond},
		written: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "weir_decision_log_records_total",
			Help: "Decisions in the decision log.",
		}),
		overRate: dropped.WithLabelValues("rate"), overQueue: dropped.WithLabelValues("queue"),
	}
	registry.MustRegister(l.written, dropped)
	return l, nil
}

// The selections of a decision.
const (
	logged engine.Selection = 1 << iota
	isFollowed
	isSample
)

// Select implements engine.Observer.
func (l *Log) Select(denial bool) (to engine.Selection) {
	if l.wants(denial) {
		to = logged
		if !denial {
			to |= isSample
		}
	}
	if denial && l.followers.Load() != nil {
		to |= isFollowed
	}
	return to
}

// Decided implements engine.Observer.
func (l *Log) Decided(to engine.Selection, c *engine.Check, a *engine.Answer, charged bool) {
	if following := l.followers.Load(); to&isFollowed != 0 && following != nil {
		l.sendTo(*following, c, a)
	}
	if to&logged == 0 {
		return
	}
	if to&isSample != 0 && len(l.queue) >= queuedSamples {
		l.overQueue.Inc()
		return
	}
	select {
	case l.queue <- l.record(c, a, charged):
	default:
		l.overQueue.Inc()
	}
}

// wants reports whether a decision is logged.
func (l *Log) wants(denial bool) bool {
	switch {
	case !denial:
		return l.options.SampleOneIn > 0 && rand.Int64N(l.options.SampleOneIn) == 0
	case l.options.DenialsPerSecond == 0:
		return false
	case !l.denials.admit(time.Now()):
		l.overRate.Inc()
		return false
	default:
		return true
	}
}

func (l *Log) record(c *engine.Check, a *engine.Answer, charged bool) Record {
	r := newRecord(c, a, charged, time.Now())
	if len(a.Results) > 0 {
		r.Identifier = l.shown(&a.Results[0])
	} else {
		r.Identifier = l.shown(&engine.Result{Rule: a.Bypassed[0].Rule, Identifier: a.Bypassed[0].Identifier})
	}
	return r
}

// shown returns the identifier of a result as it appears in records.
func (l *Log) shown(r *engine.Result) string {
	switch {
	case l.options.Identifiers == Omitted:
		return ""
	case l.options.Identifiers == Hashed && !r.Rule.Identifier.Secret && r.Identifier != limiter.Missing && r.Identifier != limiter.Unreadable:
		return l.options.HashKey.Hash(r.Identifier)
	default:
		return clip(r.Identifier)
	}
}

// Run writes the log until ctx is done, and then what is queued.
func (l *Log) Run(ctx context.Context) {
	if l.options.Handler == nil {
		<-ctx.Done()
		return
	}
	done := make(chan struct{})
	go func() { // apart, because a write can block for as long as the reader of a pipe does
		defer close(done)
		l.write(ctx)
	}()
	<-ctx.Done()
	timer := time.NewTimer(stopTimeout)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
}

// write returns when ctx is done and the queue is empty.
func (l *Log) write(ctx context.Context) {
	for ctx.Err() == nil {
		select {
		case r := <-l.queue:
			l.writeRecord(&r)
		case <-ctx.Done():
		}
	}
	for {
		select {
		case r := <-l.queue:
			l.writeRecord(&r)
		default:
			return
		}
	}
}

func (l *Log) writeRecord(r *Record) {
	if r.log(l.options.Handler) == nil {
		l.written.Inc()
	} else {
		l.overQueue.Inc()
	}
}

// perSecond admits a number of events in each second.
type perSecond struct {
	most  int64
	state atomic.Int64 // Unix seconds and, in the lower 31 bits, the events of that second
}

func (p *perSecond) admit(now time.Time) bool {
	const shift = 31
	for {
		state, second := p.state.Load(), now.Unix()&(1<<(63-shift)-1) // the seconds begin again in 2106
		n := state & (1<<shift - 1)
		if state>>shift != second {
			n = 0
		}
		if n >= min(p.most, 1<<shift-1) {
			return false
		}
		if p.state.CompareAndSwap(state, second<<shift|n+1) {
			return true
		}
	}
}
