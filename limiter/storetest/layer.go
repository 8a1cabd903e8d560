package storetest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/weir-dev/weir/limiter"
)

// Counters is a Store that keeps counters in memory.
type Counters interface {
	limiter.Store
	// Expires returns the time at which the counter at key expires; ok is false if it does not exist.
	Expires(key string) (expiresAt limiter.Instant, ok bool)
}

// Over returns the factory of layers above counters. The charges have a rule, which changes with their limit. Decisions that a layer
// makes itself must equal those of the counters. Where it leaves charges undecided, because another one denies the request, they are those of a
// Peek.
func Over[C Counters](newCounters func(clock func() time.Time) C, layer func(next limiter.Store, clock *Clock) limiter.Store) Factory {
	return func(_ testing.TB, clock *Clock) Subject {
		counters := newCounters(clock.Now)
		store := &layered{Store: layer(counters, clock), rules: map[string]*versioned{}, decided: map[limiter.Origin]int{}}
		begin := func() { store.Store = layer(counters, clock) } // what a layer remembers of later times would hold it back
		expires := func(key string) (earliest, latest limiter.Instant, ok bool) {
			expiresAt, ok := counters.Expires(key)
			return expiresAt, expiresAt, ok
		}
		return Subject{Store: store, Forward: true, Begin: begin, Decided: func() map[limiter.Origin]int { return store.decided }, Expires: expires}
	}
}

// layered completes the charges for layers, and their decisions.
type layered struct {
	limiter.Store

	mu      sync.Mutex
	rules   map[string]*versioned // by the key of the counter
	decided map[limiter.Origin]int
}

// versioned is a rule under a limit.
type versioned struct {
	limit limiter.Limit
	rule  *limiter.CountedRule
}

// Spend implements limiter.Store.
func (s *layered) Spend(ctx context.Context, charges []limiter.Charge) ([]limiter.Decision, error) {
	charges = s.ruled(charges)
	defer clear(charges) // a Store that keeps its arguments decides wrongly afterwards
	decisions, err := s.Store.Spend(ctx, charges)
	if err != nil {
		return nil, err
	}
	for i := range decisions {
		if decisions[i].Origin == limiter.Undecided {
			own, err := s.Store.Peek(ctx, charges[i:i+1])
			if err != nil {
				return nil, err
			}
			decisions[i] = own[0]
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range decisions {
		s.decided[decisions[i].Origin]++
		decisions[i].Origin = limiter.OriginStore
	}
	return decisions, nil
}

// Peek implements limiter.Store.
func (s *layered) Peek(ctx context.Context, charges []limiter.Charge) ([]limiter.Decision, error) {
	charges = s.ruled(charges)
	defer clear(charges)
	return s.Store.Peek(ctx, charges)
}

// ruled returns charges with their rules.
func (s *layered) ruled(charges []limiter.Charge) []limiter.Charge {
	s.mu.Lock()
	defer s.mu.Unlock()
	renamed := make([]limiter.Charge, len(charges))
	for i, c := range charges {
		v := s.rules[c.Key]
		if v == nil || v.limit != c.Limit {
			v = &versioned{c.Limit, &limiter.CountedRule{
				Policy: c.Key, Algorithm: c.Limit.Algorithm(), Lifetime: c.Limit.LongestWait(), Keys: limiter.NewKeySpace("weir:", "Tenant", c.Key, c.Limit),
			}}
			s.rules[c.Key] = v
		}
		c.Rule = v.rule
		renamed[i] = c
	}
	return renamed
}
