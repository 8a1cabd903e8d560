// Package memstore keeps counters in memory: the default of a standalone limiter and the oracle of the tests.
package memstore

import (
	"context"
	"sync"
	"time"

	"github.com/weir-dev/weir/limiter"
)

// sweepEvery is how many spends pass between two sweeps of a part of the expired counters.
const (
	sweepEvery = 64
	sweepSize  = 256
)

// Store is a limiter.Store in memory. All counters lie behind one lock: a decision holds it for well under a microsecond.
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

// New returns an empty Store that reads the time from clock.
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
		held, ok := s.counters[r.Key]
		if !ok || r.Units() == 0 {
			continue
		}
		held.state.Refund(now, r.Limit, r.Units(), r.At)
		held.expires = held.state.Expires(r.Limit)
		s.counters[r.Key] = held
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

// Len is how many counters are held, expired ones that no sweep has met yet included.
func (s *Store) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.counters)
}

// Expires says from when on the counter at key is worth no more than none; ok is false if there is none.
func (s *Store) Expires(key string) (at limiter.Instant, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, ok := s.counters[key]
	return c.expires, ok && c.expires > limiter.At(s.clock())
}

func (s *Store) states(charges []limiter.Charge) []limiter.State {
	states := make([]limiter.State, len(charges))
	for i, c := range charges {
		held, ok := s.counters[c.Key]
		if !ok {
			held.state = c.Limit.NewState()
		}
		states[i] = held.state
	}
	return states
}

// sweep drops expired counters, a few at a time: Go's map iteration begins anywhere, so every counter's turn comes.
func (s *Store) sweep(now limiter.Instant) {
	s.spends++
	if s.spends%sweepEvery != 0 {
		return
	}
	seen := 0
	for key, c := range s.counters {
		if c.expires <= now {
			delete(s.counters, key)
		}
		if seen++; seen == sweepSize {
			return
		}
	}
}
