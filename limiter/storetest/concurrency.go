package storetest

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-dev/weir/limiter"
)

// Concurrency spends on two limits from several goroutines at one instant: the number of allowed requests must be the
// smaller limit, and the larger limit must be charged for exactly that number.
func Concurrency(t *testing.T, factory Factory) {
	const small, large = 100, 250
	for _, algorithm := range limiter.Algorithms() {
		t.Run(string(algorithm), func(t *testing.T) {
			clock := &Clock{}
			clock.Set(Epoch())
			subject := factory(t, clock)
			store := subject.Store
			charges := make([]limiter.Charge, 2)
			for i, units := range []int64{small, large} {
				limit := mustLimit(algorithm, units, time.Minute)
				if algorithm == limiter.LeakyBucket {
					limit, _ = limit.WithBurst(units - 1) // a queue of units - 1, and the unit that leaves immediately
				}
				identifier := "acme"
				if subject.Spread {
					identifier = fmt.Sprintf("acme-%d", i)
				}
				charges[i] = limiter.Charge{Key: subject.key(fmt.Sprintf("concurrent-%d", i), identifier, limit), Limit: limit, Cost: 1}
			}
			if got := spendConcurrently(t, store, charges); got != small {
				t.Errorf("admitted %d times, want %d", got, small)
			}
			left, err := store.Peek(t.Context(), charges)
			if err != nil {
				t.Fatal(err)
			}
			if left[0].Remaining != 0 || left[1].Remaining != large-small {
				t.Errorf("remaining %d and %d, want 0 and %d", left[0].Remaining, left[1].Remaining, large-small)
			}
		})
	}
}

// spendConcurrently makes 400 calls from 8 goroutines and returns the number of admitted ones.
func spendConcurrently(t *testing.T, store limiter.Store, charges []limiter.Charge) int64 {
	t.Helper()
	const callers, calls = 8, 50
	var admitted atomic.Int64
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for range calls {
				decisions, err := store.Spend(t.Context(), charges)
				if err != nil {
					t.Errorf("spend: %v", err)
					return
				}
				if decisions[0].Allowed && decisions[1].Allowed {
					admitted.Add(1)
				}
			}
		})
	}
	wg.Wait()
	return admitted.Load()
}
