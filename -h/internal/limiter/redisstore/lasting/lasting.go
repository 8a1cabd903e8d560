// Package lasting detects calls that keep failing at a Redis node which answers other calls.
//
// A missing permission or a command that a service does not have fails some calls and not others. The probe of the node does not find it. A [Tracker]
// counts such failures by what the calls need. If they last, it probes exactly that, and rejects these calls until the probe succeeds.
package lasting

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-dev/weir/go/internal/limiter"
	"github.com/weir-dev/weir/go/internal/limiter/wait"
)

const (
	// Lasts is how long calls fail before that is an outage.
	Lasts = time.Second
	// leastFailures is the number of failures in that time.
	leastFailures = 3
	// memory is how long a failure counts.
	memory = 10 * time.Second
	// The pauses between probes of an outage.
	firstPause, maxPause = 250 * time.Millisecond, 2 * time.Second
)

// Need is what a call needs of Redis: the commands of the script for counters of this form.
type Need struct {
	Algorithm limiter.Algorithm
	Compact   bool // a field of a hash
	InPlace   bool // a log that is read and written in place
}

// NeedOf returns the need of a charge. wholeLog is the greatest limit of a log that is read as a whole.
func NeedOf(key string, limit limiter.Limit, wholeLog int64) Need {
	_, _, isCompact := limiter.CompactKey(key)
	traits := limit.Traits()
	return Need{Algorithm: traits.Name, Compact: isCompact, InPlace: traits.Log && limit.Units() > wholeLog}
}

// String describes the counters, for example "Compact counters of FixedWindow".
func (n Need) String() string {
	switch {
	case n.Compact:
		return "Compact counters of " + string(n.Algorithm)
	case n.InPlace:
		return "large counters of " + string(n.Algorithm)
	default:
		return "counters of " + string(n.Algorithm)
	}
}

// Observer is notified of outages of needs. Its methods are called in this order for each outage, except that Failed and Ending can repeat.
type Observer interface {
	// Began reports that calls failed for some time, and then a probe.
	Began(need Need, cause error)
	// Failed reports that another probe failed.
	Failed(need Need, cause error)
	// Ending reports that a probe succeeded. Until it returns, only calls that report usage are not rejected.
	Ending(ctx context.Context, lasted time.Duration)
	// Ended reports that no call is rejected any more.
	Ended(need Need)
}

// Tracker counts the failures of the calls to one node. It is safe for concurrent use.
type Tracker struct {
	ctx      context.Context //nolint:containedctx // it ends the probes
	probe    func(ctx context.Context, charge limiter.Charge) error
	observer Observer

	outages atomic.Int64 // to be read without the lock
	mu      sync.Mutex
	needs   map[Need]*state
}

// state is what is known about a need.
type state struct {
	first, last time.Time // failure
	failures    int
	probing     bool
	rejects     bool // an outage
	ending      bool // accepts reports of usage
}

// New returns a Tracker. probe returns nil if calls like those on the counter of a charge succeed, and [limiter.ErrNotSent] if it made no call. It
// ends with ctx.
func New(ctx context.Context, probe func(context.Context, limiter.Charge) error, observer Observer) *Tracker {
	return &Tracker{ctx: ctx, probe: probe, observer: observer, needs: map[Need]*state{}}
}

// Failed records that a call on the counter of charge failed because of cause, although the node answers other calls.
func (t *Tracker) Failed(need Need, charge limiter.Charge, cause error) {
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.needs[need]
	if s == nil {
		s = &state{}
		t.needs[need] = s
	}
	if s.probing || s.rejects {
		return
	}
	if now.Sub(s.last) >= memory {
		s.first, s.failures = now, 0
	}
	s.last = now
	if s.failures++; s.failures < leastFailures || now.Sub(s.first) < Lasts {
		return
	}
	s.probing = true
	go t.run(need, s, charge, cause)
}

// run probes a need. If that fails, calls that have it are rejected until a probe succeeds.
func (t *Tracker) run(need Need, s *state, charge limiter.Charge, cause error) {
	err := t.probe(t.ctx, charge)
	if err == nil || errors.Is(err, limiter.ErrNotSent) || t.ctx.Err() != nil { // the failures have another reason, for example one of the counters
		t.change(func() { *s = state{} })
		return
	}
	began := time.Now()
	t.change(func() { s.rejects = true })
	t.outages.Add(1)
	t.observer.Began(need, cause)
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		if !wait.Sleep(t.ctx, wait.Jittered(pause)) {
			return
		}
		err := t.probe(t.ctx, charge)
		if err == nil {
			break
		}
		if !errors.Is(err, limiter.ErrNotSent) {
			t.observer.Failed(need, err)
		}
	}
	t.change(func() { s.ending = true })
	t.observer.Ending(t.ctx, time.Since(began))
	t.outages.Add(-1)
	t.change(func() { *s = state{} })
	t.observer.Ended(need)
}

func (t *Tracker) change(change func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	change()
}

// HasOutage reports whether some calls are rejected.
func (t *Tracker) HasOutage() bool { return t != nil && t.outages.Load() > 0 }

// Rejects reports whether calls with that need are rejected. At the end of an outage, those that report usage are not.
func (t *Tracker) Rejects(need Need, reportsUsage bool) bool {
	if !t.HasOutage() {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.needs[need]
	return s != nil && s.rejects && (!reportsUsage || !s.ending)
}
