// Package quarantine holds back the calls on single counters that fail although their Redis node answers others.
package quarantine

import (
	"context"
	"iter"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-dev/weir/go/internal/limiter"
	"github.com/weir-dev/weir/go/internal/limiter/wait"
)

const (
	// maxSuspects bounds the keys of Counters. Calls on other keys that fail are made again with the next request.
	maxSuspects = 4096
	// suspectMemory is how long a failure of a key counts.
	suspectMemory = 10 * time.Second
	// freeFailures of a key are followed by a probe immediately, the others after a pause, which doubles from firstQuarantine to maxQuarantine.
	freeFailures    = 2
	firstQuarantine = 500 * time.Millisecond
	maxQuarantine   = 5 * time.Second
	// keyProbes is the number of keys that are probed at the same time. Each one that does not answer occupies a connection.
	keyProbes = 2
	// ProbeWait bounds how long a request waits for a probe that begins right after a failure: most counters of a failed batch answer it.
	ProbeWait = 25 * time.Millisecond
)

// Counters is a circuit breaker for each counter whose calls fail although its node answers others: because a proxy loses their replies, or
// because a script fails on them. Like the breaker of a node, it opens at the first failure, and a probe in the background closes it. So a
// counter cannot keep others from being decided in Redis. A key whose calls failed several times recently is sent alone, not in a batch.
//
// A failed call does not show which of the keys of its batch is the cause. All of them are probed, each on its own.
type Counters struct {
	probe  func(ctx context.Context, charge limiter.Charge) error
	ctx    context.Context               //nolint:containedctx // it ends the probes
	probes chan struct{}                 // holds a value for each probe
	report func(key string, cause error) // of a counter that failed its own probe; nil: nothing is reported

	size     atomic.Int64 // len(suspects), to be read without the lock
	mu       sync.Mutex
	suspects map[string]*suspect
}

// suspect is a counter whose calls failed.
type suspect struct {
	charge   limiter.Charge // for the probe
	failures int            // each at most suspectMemory after the one before
	failed   time.Time      // last
	answered time.Time      // last
	wanted   time.Time      // last, while open
	open     bool           // calls are rejected
	probing  chan struct{}  // closed when the probe that runs now ends; nil without one
	next     time.Time      // when it can be probed
}

// New returns Counters that are probed with probe until ctx ends. report, if not nil, receives the counters that fail their own probe.
func New(ctx context.Context, probe func(context.Context, limiter.Charge) error, report func(key string, cause error)) *Counters {
	return &Counters{ctx: ctx, probe: probe, report: report, probes: make(chan struct{}, keyProbes), suspects: map[string]*suspect{}}
}

// IsEmpty reports whether no counter failed recently.
func (q *Counters) IsEmpty() bool { return q == nil || q.size.Load() == 0 }

// Rejects reports whether calls on the counter at key are not made now. It starts the next probe of the counter when it is due.
func (q *Counters) Rejects(key string) bool {
	if q.IsEmpty() {
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	s, ok := q.suspects[key]
	if !ok || !s.open {
		return false
	}
	s.wanted = time.Now()
	if s.probing == nil && !s.wanted.Before(s.next) {
		s.probing = make(chan struct{})
		go q.probeKeys([]*suspect{s})
	}
	return true
}

// IsUnavailable is Rejects, but waits for a probe that has begun right after a failure: the calls of that moment need no local decision then.
func (q *Counters) IsUnavailable(key string) bool {
	if !q.Rejects(key) {
		return false
	}
	q.mu.Lock()
	s, ok := q.suspects[key]
	var probing chan struct{}
	if ok && s.failures <= freeFailures {
		probing = s.probing
	}
	q.mu.Unlock()
	if probing != nil {
		timer := time.NewTimer(ProbeWait)
		defer timer.Stop()
		select {
		case <-probing:
		case <-timer.C:
		}
	}
	return q.Rejects(key)
}

// RejectsAny is Rejects for the counters of charges.
func (q *Counters) RejectsAny(charges []limiter.Charge) bool {
	if q.IsEmpty() {
		return false
	}
	for i := range charges {
		if q.Rejects(charges[i].Key) {
			return true
		}
	}
	return false
}

// Isolates reports whether a call is sent alone, because calls on one of its counters failed several times recently.
func (q *Counters) Isolates(charges []limiter.Charge) bool {
	if q.IsEmpty() {
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for i := range charges {
		if s := q.suspects[charges[i].Key]; s != nil && s.failures >= freeFailures && time.Since(s.failed) < suspectMemory {
			return true
		}
	}
	return false
}

// Answered records that calls on the counters of charges were answered.
func (q *Counters) Answered(calls iter.Seq[[]limiter.Charge]) {
	if q.IsEmpty() {
		return
	}
	now := time.Now()
	q.mu.Lock()
	defer q.mu.Unlock()
	for charges := range calls {
		for i := range charges {
			if s := q.suspects[charges[i].Key]; s != nil {
				s.answered = now
			}
		}
	}
}

// Fail records that a batch of calls on the counters of charges, which began at an instant, failed although their node answers, and probes
// them. A counter that has answered another call since then is not the cause. A counter that failed in a batch with others only, however often,
// is probed and sent alone: only if it fails alone, or in a probe, is it not probed for some time.
func (q *Counters) Fail(charges []limiter.Charge, began time.Time, isAlone bool) {
	if q == nil {
		return
	}
	now := time.Now()
	var due []*suspect
	q.mu.Lock()
	for _, c := range charges {
		s := q.suspect(c, now)
		if s == nil || s.answered.After(began) {
			continue
		}
		if s.fail(now); !isAlone {
			s.failures, s.next = min(s.failures, freeFailures), now
		}
		if s.probing == nil && !now.Before(s.next) {
			s.probing = make(chan struct{})
			due = append(due, s)
		}
	}
	q.mu.Unlock()
	if len(due) > 0 {
		go q.probeKeys(due)
	}
}

// suspect returns the suspect of a charge, a new one if it is not known, nil if there are too many. The lock is held.
func (q *Counters) suspect(c limiter.Charge, now time.Time) *suspect {
	if s, ok := q.suspects[c.Key]; ok {
		return s
	}
	if len(q.suspects) >= maxSuspects {
		return nil
	}
	s := &suspect{charge: limiter.Charge{Key: c.Key, Limit: c.Limit, Cost: 1}, failed: now}
	if len(q.suspects) == 0 {
		time.AfterFunc(suspectMemory, q.forget)
	}
	q.suspects[c.Key] = s
	q.size.Store(int64(len(q.suspects)))
	return s
}

// forget drops the suspects whose failures no longer count, or on which no call was to be made recently, as long as there are any.
func (q *Counters) forget() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for key, s := range q.suspects {
		if s.probing == nil && time.Since(s.failed) >= suspectMemory && time.Since(s.wanted) >= suspectMemory {
			delete(q.suspects, key)
		}
	}
	q.size.Store(int64(len(q.suspects)))
	if len(q.suspects) > 0 && q.ctx.Err() == nil {
		time.AfterFunc(suspectMemory, q.forget)
	}
}

// fail opens the breaker of the counter. The lock is held.
func (s *suspect) fail(now time.Time) {
	if now.Sub(s.failed) >= suspectMemory {
		s.failures = 0
	}
	s.failures, s.failed, s.open, s.next = s.failures+1, now, true, now
	if s.failures > freeFailures {
		doublings := min(s.failures-freeFailures-1, bits.Len(uint(maxQuarantine/firstQuarantine)))
		s.next = now.Add(wait.Jittered(min(firstQuarantine<<doublings, maxQuarantine)))
	}
}

// probeKeys probes counters, a few at a time, and closes the breakers of those that answer.
func (q *Counters) probeKeys(suspects []*suspect) {
	for _, s := range suspects {
		select {
		case <-q.ctx.Done():
			return
		case q.probes <- struct{}{}:
		}
		go func() {
			err := q.probe(q.ctx, s.charge)
			<-q.probes
			q.mu.Lock()
			defer q.mu.Unlock()
			close(s.probing)
			s.probing = nil
			if err == nil {
				s.open, s.answered = false, time.Now()
			} else if q.ctx.Err() == nil {
				if s.fail(time.Now()); s.failures > freeFailures && q.report != nil {
					go q.report(s.charge.Key, err)
				}
			}
		}()
	}
}

// Reset drops all suspects: their node is unavailable, so their failures are no evidence.
func (q *Counters) Reset() {
	if q == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	clear(q.suspects)
	q.size.Store(0)
}

// Held returns the number of counters that are rejected now.
func (q *Counters) Held() (n int) {
	if q == nil {
		return 0
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, s := range q.suspects {
		if s.open {
			n++
		}
	}
	return n
}
