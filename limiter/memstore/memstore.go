// Package memstore keeps counters in memory: for a limiter without Redis, and as the oracle of tests.
package memstore

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/weir-dev/weir/limiter"
)

// Store is a limiter.Store in memory. One lock guards all counters; a decision holds it for about a microsecond.
type Store struct {
	clock    func() time.Time
	maxBytes int

	mu       sync.Mutex
	counters table
	spends   int
	used     []limiter.State // by states, for one call
	at       []int           // where they are in the table, or -1
	evicted  int64
}

// Option configures a Store.
type Option func(*Store)

// MaxBytes bounds the memory of the counters, approximately. If it is full, the counters with the smallest spent part of their
// limits are evicted, and start over. Without this option the memory grows with the number of clients.
func MaxBytes(n int) Option {
	return func(s *Store) { s.maxBytes = n }
}

// Stats are figures about a Store.
type Stats struct {
	// Counters, with expired ones that no sweep has removed yet, and their approximate memory in bytes.
	Counters, Bytes int
	// Evicted is the number of counters that were evicted before they expired, since New.
	Evicted int64
}

// New returns an empty Store that uses clock.
func New(clock func() time.Time, options ...Option) *Store {
	s := &Store{clock: clock, maxBytes: math.MaxInt, counters: newTable()}
	for _, option := range options {
		option(s)
	}
	return s
}

// Spend implements limiter.Store. It never fails.
func (s *Store) Spend(_ context.Context, charges []limiter.Charge) ([]limiter.Decision, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := limiter.At(s.clock())
	states := s.states(charges)
	decisions := limiter.Spend(now, charges, states)
	for i := range charges {
		if c := &charges[i]; states[i].Expires(c.Limit) > now {
			s.counters.putAt(s.at[i], c.Key, c.Limit, states[i])
		}
	}
	s.sweep(now)
	s.evict(now, charges)
	return decisions, nil
}

// Peek implements limiter.Store. It never fails.
func (s *Store) Peek(_ context.Context, charges []limiter.Charge) ([]limiter.Decision, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return limiter.Peek(limiter.At(s.clock()), charges, s.states(charges)), nil
}

// Refund implements limiter.Store. It never fails.
func (s *Store) Refund(ctx context.Context, refunds []limiter.Refund) error {
	for _, r := range refunds {
		if r.Latest {
			_ = limiter.RefundLatest(ctx, s, r) // it never fails
			continue
		}
		s.refund(&r)
	}
	return nil
}

func (s *Store) refund(r *limiter.Refund) {
	s.mu.Lock()
	defer s.mu.Unlock()
	stored, ok := s.counters.get(r.Key)
	if !ok || r.Units() == 0 {
		return
	}
	stored.state.Refund(limiter.At(s.clock()), r.Limit, r.Units(), r.At)
	s.counters.put(r.Key, r.Limit, stored.state)
}

// Reset implements limiter.Store. It never fails.
func (s *Store) Reset(_ context.Context, keys []string, _ string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range keys {
		s.counters.remove(key)
	}
	return nil
}

// Len returns the number of counters, including expired ones that no sweep has removed yet.
func (s *Store) Len() int { return s.Stats().Counters }

// Stats returns the current figures.
func (s *Store) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Stats{Counters: len(s.counters.dense), Bytes: s.counters.bytes, Evicted: s.evicted}
}

// Expires returns the time at which the counter at key expires; ok is false if it does not exist or has expired.
func (s *Store) Expires(key string) (expiresAt limiter.Instant, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, ok := s.counters.get(key)
	if !ok {
		return 0, false
	}
	return c.expires, c.expires > limiter.At(s.clock())
}

// states returns the states of the counters of charges, until the next call. The caller holds the lock.
func (s *Store) states(charges []limiter.Charge) []limiter.State {
	s.used, s.at = s.used[:0], s.at[:0]
	for i := range charges {
		c := &charges[i]
		if at, ok := s.counters.indexes[c.Key]; ok {
			s.used, s.at = append(s.used, s.counters.dense[at].state), append(s.at, at)
		} else {
			s.used, s.at = append(s.used, c.Limit.NewState()), append(s.at, -1)
		}
	}
	return s.used
}
