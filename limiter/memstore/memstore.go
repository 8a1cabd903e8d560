// Package memstore keeps counters in memory: for a limiter without Redis, and as the oracle of tests.
package memstore

import (
	"context"
	"sync"
	"time"

	"github.com/weir-dev/weir/limiter"
)

const (
	// sweepEvery is the number of spends between two sweeps, which remove expired counters.
	sweepEvery = 64
	// sweepSize is the number of counters that a sweep checks.
	sweepSize = 256
)

// Store is a limiter.Store in memory. One lock guards all counters; a decision holds it for less than a microsecond.
type Store struct {
	clock func() time.Time

	mu       sync.Mutex
	counters map[string]counter
	spends   int
}

type counter struct {
	state   limiter.State
	expires limiter.Instant
}

// New returns an empty Store that uses clock.
func New(clock func() time.Time) *Store {
	return &Store{clock: clock, counters: map[string]counter{}}
}

// Spend implements limiter.Store. It never fails.
func (s *Store) Spend(_ context.Context, charges []limiter.Charge) ([]limiter.Decision, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := limiter.At(s.clock())
	states := s.states(charges)
	decisions := limiter.Spend(now, charges, states)
	for i, c := range charges {
		if expires := states[i].Expires(c.Limit); expires > now {
			s.counters[c.Key] = counter{states[i], expires}
		}
	}
	s.sweep(now)
	return decisions, nil
}

// Peek implements limiter.Store. It never fails.
func (s *Store) Peek(_ context.Context, charges []limiter.Charge) ([]limiter.Decision, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return limiter.Peek(limiter.At(s.clock()), charges, s.states(charges)), nil
}

// Refund implements limiter.Store. It never fails.
func (s *Store) Refund(_ context.Context, refunds []limiter.Refund) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := limiter.At(s.clock())
	for _, r := range refunds {
		stored, ok := s.counters[r.Key]
		if !ok || r.Units() == 0 {
			continue
		}
		stored.state.Refund(now, r.Limit, r.Units(), r.At)
		stored.expires = stored.state.Expires(r.Limit)
		s.counters[r.Key] = stored
	}
	return nil
}

// Reset implements limiter.Store. It never fails.
func (s *Store) Reset(_ context.Context, keys []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range keys {
		delete(s.counters, key)
	}
	return nil
}

// Len returns the number of counters, including expired ones that no sweep has removed yet.
func (s *Store) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.counters)
}

// Expires returns the time at which the counter at key expires; ok is false if it does not exist or has expired.
func (s *Store) Expires(key string) (at limiter.Instant, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, ok := s.counters[key]
	return c.expires, ok && c.expires > limiter.At(s.clock())
}

func (s *Store) states(charges []limiter.Charge) []limiter.State {
	states := make([]limiter.State, len(charges))
	for i, c := range charges {
		stored, ok := s.counters[c.Key]
		if !ok {
			stored.state = c.Limit.NewState()
		}
		states[i] = stored.state
	}
	return states
}

// sweep removes expired counters, up to sweepSize at a time. Go's map iteration starts at a random counter, so a sweep
// checks every counter sooner or later.
func (s *Store) sweep(now limiter.Instant) {
	s.spends++
	if s.spends%sweepEvery != 0 {
		return
	}
	checked := 0
	for key, c := range s.counters {
		if c.expires <= now {
			delete(s.counters, key)
		}
		if checked++; checked == sweepSize {
			return
		}
	}
}
