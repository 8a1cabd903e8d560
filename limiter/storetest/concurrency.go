package storetest

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-dev/weir/limiter"
)

// Concurrency spends from many goroutines at one instant on two limits at once: exactly as much passes as the
// tighter one allows, and the wider one is charged for exactly that much.
func Concurrency(t *testing.T, factory Factory) {
	const tight, wide = 100, 250
	for _, algorithm := range algorithms() {
		t.Run(string(algorithm), func(t *testing.T) {
			clock := &Clock{}
			clock.Set(Epoch())
			subject := factory(t, clock)
			store := subject.Store
			charges := make([]limiter.Charge, 2)
			for i, units := range []int64{tight, wide} {
				limit := mustLimit(algorithm, units, time.Minute)
				if algorithm == limiter.LeakyBucket {
					limit, _ = limit.WithBurst(units - 1) // a queue of that many and the one that leaves at once
				}
				identifier := "acme"
				if subject.Spread {
					identifier = fmt.Sprintf("acme-%d", i)
				}
				charges[i] = limiter.Charge{Key: key(fmt.Sprintf("concurrent-%d", i), identifier, limit), Limit: limit, Cost: 1}
			}
			if got := spendConcurrently(t, store, charges); got != tight {
				t.Errorf("admitted %d times, want %d", got, tight)
			}
			left, err := store.Peek(t.Context(), charges)
			if err != nil {
				t.Fatal(err)
			}
			if left[0].Remaining != 0 || left[1].Remaining != wide-tight {
				t.Errorf("left %d and %d, want 0 and %d", left[0].Remaining, left[1].Remaining, wide-tight)
			}
		})
	}
}

// spendConcurrently makes 400 calls from 8 goroutines and returns how many were admitted.
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
