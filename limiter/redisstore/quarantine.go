package redisstore

import (
	"context"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/redisclient"
)

const (
	// maxSuspects bounds the keys of a quarantine. Calls on other keys that fail are made again with the next request.
	maxSuspects = 4096
	// suspectMemory is how long a failure of a key counts.
	suspectMemory = 10 * time.Second
	// freeFailures of a key are followed by a probe immediately, the others after a pause, which doubles from firstQuarantine to maxQuarantine.
	freeFailures    = 2
	firstQuarantine = 500 * time.Millisecond
	maxQuarantine   = 5 * time.Second
	// keyProbes is the number of keys that are probed at the same time. Each one that does not answer occupies a connection.
	keyProbes = 2
	// probeWait bounds how long a request waits for a probe that begins right after a failure: most counters of a failed batch answer it.
	probeWait = 25 * time.Millisecond
	// aloneInFlight is the number of calls to a node that are sent alone at the same time.
	aloneInFlight = 2
)

// quarantine is a circuit breaker for each counter whose calls fail although its node answers others: because a proxy loses their replies, or
// because a script fails on them. Like the breaker of a node, it opens at the first failure, and a probe in the background closes it. So a
// counter cannot keep others from being decided in Redis. A key whose calls failed several times recently is sent alone, not in a batch.
//
// A failed call does not show which of the keys of its batch is the cause. All of them are probed, each on its own.
type quarantine struct {
	probe  func(ctx context.Context, charge limiter.Charge) error
	ctx    context.Context //nolint:containedctx // it ends the probes
	probes chan struct{}   // holds a value for each probe

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

func newQuarantine(ctx context.Context, probe func(context.Context, limiter.Charge) error) *quarantine {
	return &quarantine{ctx: ctx, probe: probe, probes: make(chan struct{}, keyProbes), suspects: map[string]*suspect{}}
}

// rejects reports whether calls on the counter at key are not made now. It starts the next probe of the counter when it is due.
func (q *quarantine) rejects(key string) bool {
	if q == nil || q.size.Load() == 0 {
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

// isUnavailable is rejects, but waits for a probe that has begun right after a failure: the calls of that moment need no local decision then.
func (q *quarantine) isUnavailable(key string) bool {
	if !q.rejects(key) {
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
		timer := time.NewTimer(probeWait)
		defer timer.Stop()
		select {
		case <-probing:
		case <-timer.C:
		}
	}
	return q.rejects(key)
}

// rejectsAny is rejects for the counters of charges.
func (q *quarantine) rejectsAny(charges []limiter.Charge) bool {
	if q == nil || q.size.Load() == 0 {
		return false
	}
	for i := range charges {
		if q.rejects(charges[i].Key) {
			return true
		}
	}
	return false
}

// isolates reports whether a call is sent alone, because calls on one of its counters failed several times recently.
func (q *quarantine) isolates(charges []limiter.Charge) bool {
	if q == nil || q.size.Load() == 0 {
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

// answered records that a call on the counters of charges was answered.
func (q *quarantine) answered(batch []*call) {
	if q == nil || q.size.Load() == 0 {
		return
	}
	now := time.Now()
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, c := range batch {
		if c.reply.err != nil {
			continue
		}
		for i := range c.charges {
			if s := q.suspects[c.charges[i].Key]; s != nil {
				s.answered = now
			}
		}
	}
}

// fail records that a batch of calls on the counters of charges, which began at an instant, failed although their node answers, and probes
// them. A counter that has answered another call since then is not the cause. A counter that failed in a batch with others only, however often,
// is probed and sent alone: only if it fails alone, or in a probe, is it not probed for some time.
func (q *quarantine) fail(charges []limiter.Charge, began time.Time, isAlone bool) {
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
func (q *quarantine) suspect(c limiter.Charge, now time.Time) *suspect {
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
func (q *quarantine) forget() {
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
		s.next = now.Add(jittered(min(firstQuarantine<<doublings, maxQuarantine)))
	}
}

// probeKeys probes counters, a few at a time, and closes the breakers of those that answer.
func (q *quarantine) probeKeys(suspects []*suspect) {
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
				s.fail(time.Now())
			}
		}()
	}
}

// reset drops all suspects: their node is unavailable, so their failures are no evidence.
func (q *quarantine) reset() {
	if q == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	clear(q.suspects)
	q.size.Store(0)
}

// held returns the number of counters that are rejected now.
func (q *quarantine) held() (n int) {
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

// suspectCharges returns the charges of the calls of a batch that failed in a way that can be due to one of their counters.
func suspectCharges(batch []*call) (charges []limiter.Charge) {
	for _, c := range batch {
		if c.reply.err != nil && mayBeDueToKey(c.reply.err) {
			charges = append(charges, c.charges...)
		}
	}
	return charges
}

// mayBeDueToKey reports whether an error can be due to one counter: a lost reply, missing permission for its key, or an error of the script.
func mayBeDueToKey(err error) bool {
	switch redisclient.Kind(err) {
	case redisclient.KindTimeout, redisclient.KindDisconnected, redisclient.KindDenied, redisclient.KindOther:
		return !wasNotSent(err)
	default:
		return false
	}
}
