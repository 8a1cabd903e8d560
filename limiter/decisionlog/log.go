package decisionlog

import (
	"context"
	"fmt"
	"hash/maphash"
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
	// DenialsPerSecond is the number of denials that are logged in a second, which can be 0. The domains with denials have equal shares.
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
	denials *shares
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
		options: o, queue: make(chan Record, queued), denials: newShares(o.DenialsPerSecond),
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
func (l *Log) Select(domain string, denial bool) (selection engine.Selection) {
	if l.wants(domain, denial) {
		selection = logged
		if !denial {
			selection |= isSample
		}
	}
	if denial && l.followers.Load() != nil {
		selection |= isFollowed
	}
	return selection
}

// Decided implements engine.Observer.
func (l *Log) Decided(selection engine.Selection, c *engine.Check, a *engine.Answer, charged bool) {
	if following := l.followers.Load(); selection&isFollowed != 0 && following != nil {
		l.sendTo(*following, c, a)
	}
	if selection&logged == 0 {
		return
	}
	if selection&isSample != 0 && len(l.queue) >= queuedSamples {
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
func (l *Log) wants(domain string, denial bool) bool {
	switch {
	case !denial:
		return l.options.SampleOneIn > 0 && rand.Int64N(l.options.SampleOneIn) == 0
	case l.options.DenialsPerSecond == 0:
		return false
	case !l.denials.admit(domain, time.Now()):
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
		for i := range r.Others {
			r.Others[i].Identifier = l.shown(&a.Results[1+i])
		}
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
	case l.options.Identifiers == Hashed && !r.Rule.Hashes(r.Identifier) && r.Identifier != limiter.Missing && r.Identifier != limiter.Unreadable:
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

// maxShares is the number of domains with a share of their own in a second. All others have one together.
const maxShares = 1024

// shares admits a number of events in each second, and gives each domain an equal share of them: no domain takes the share of another. In a
// second in which the events of further domains begin, it admits up to twice as many: their shares were not known before.
type shares struct {
	most int64
	seed maphash.Seed

	lock            sync.Mutex
	second          int64
	total           int64            // admitted in the second
	counts          map[uint64]int64 // admitted in the second, by the hash of the domain; 0 has the domains without a share of their own
	previousDomains int              // domains in the second before
}

func newShares(most int64) *shares {
	return &shares{most: most, seed: maphash.MakeSeed(), counts: map[uint64]int64{}}
}

func (s *shares) admit(domain string, now time.Time) bool {
	key := maphash.String(s.seed, domain)
	s.lock.Lock()
	defer s.lock.Unlock()
	if second := now.Unix(); second != s.second {
		s.previousDomains = 0
		if second == s.second+1 {
			s.previousDomains = len(s.counts)
		}
		s.second, s.total = second, 0
		clear(s.counts)
	}
	if _, found := s.counts[key]; !found {
		if len(s.counts) >= maxShares {
			key = 0
		}
		s.counts[key] += 0 // is active from now on
	}
	share := max(1, s.most/int64(max(s.previousDomains, len(s.counts))))
	if s.counts[key] >= share || s.total/2 >= s.most {
		return false
	}
	s.counts[key]++
	s.total++
	return true
}
