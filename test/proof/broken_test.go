package proof

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/redisstore"
	"github.com/weir-dev/weir/test/fixture"
)

// twoSteps is a Store that looks whether there is room and then counts, in two calls. Whoever calls it alone sees no
// difference. It is for a FixedWindow of one key.
type twoSteps struct{ limiter.Store }

func (s twoSteps) Spend(ctx context.Context, charges []limiter.Charge) ([]limiter.Decision, error) {
	looked, err := s.Peek(ctx, charges)
	if err != nil || !looked[0].Allowed {
		return looked, err
	}
	// Counting alone: under a limit that has room for everything.
	charge := charges[0]
	if charge.Limit, err = limiter.NewLimit(charge.Limit.Algorithm(), limiter.MaxUnits, charge.Limit.Window()); err != nil {
		return nil, err
	}
	counted, err := s.Store.Spend(ctx, []limiter.Charge{charge})
	if err != nil {
		return nil, err
	}
	decision := counted[0]
	decision.Limit, decision.Remaining = looked[0].Limit, looked[0].Remaining-charge.Cost
	return []limiter.Decision{decision}, nil
}

// forgetful is a Store that takes one spend back behind everybody's back.
type forgetful struct {
	limiter.Store

	spends *atomic.Int64
}

// forgotten is the number of the spend, among those that were counted, that a forgetful Store forgets.
const forgotten = 20

func (s forgetful) Spend(ctx context.Context, charges []limiter.Charge) ([]limiter.Decision, error) {
	decisions, err := s.Store.Spend(ctx, charges)
	if err != nil || !decisions[0].Allowed || s.spends.Add(1) != forgotten {
		return decisions, err
	}
	return decisions, s.Refund(ctx, []limiter.Refund{
		{Key: charges[0].Key, Limit: charges[0].Limit, Cost: charges[0].Cost, At: decisions[0].At},
	})
}

// stale is a Store that answers a peek as it answered the one before.
type stale struct {
	limiter.Store

	last *atomic.Pointer[[]limiter.Decision]
}

func (s stale) Peek(ctx context.Context, charges []limiter.Charge) ([]limiter.Decision, error) {
	decisions, err := s.Store.Peek(ctx, charges)
	if err != nil {
		return nil, err
	}
	late := []limiter.Decision{decisions[0]}
	if last := s.last.Swap(&decisions); last != nil {
		late[0].Remaining = (*last)[0].Remaining
	}
	return late, nil
}

// TestABrokenStoreIsFoundOut shows that the check of linearizability can fail, and on what.
func TestABrokenStoreIsFoundOut(t *testing.T) {
	server := fixture.Redis(t)
	sound := redisstore.NewStore(open(t, server.URL(), patient), patient)
	limit, err := limiter.NewLimit(limiter.FixedWindow, 100, limiter.MaxWindow)
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		store   limiter.Store
		callers int
		found   bool
	}{
		"a sound one":                            {sound, callers, false},
		"one that checks and then counts, alone": {twoSteps{sound}, 1, false},
		"one that checks and then counts":        {twoSteps{sound}, callers, true},
		"one that forgets a spend":               {forgetful{sound, &atomic.Int64{}}, callers, true},
		"one that answers a peek late":           {stale{sound, &atomic.Pointer[[]limiter.Decision]{}}, callers, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			history := crowd(t, test.store, limiter.Charge{Key: key(name, "broken", limit), Limit: limit, Cost: 1}, test.callers)
			err := check(history, ofGroup, thinking)
			var not *linearityError
			if found := errors.As(err, &not); found != test.found || (err != nil && !found) {
				t.Errorf("found out: %v, want %v: %v", found, test.found, err)
			}
		})
	}
}

// crowd makes calls on one key, without a pause.
func crowd(t *testing.T, store limiter.Store, charge limiter.Charge, callers int) []porcupine.Operation {
	t.Helper()
	const calls = 240 // more than the limit
	r := &recorder{began: time.Now()}
	failed := make(chan error, callers)
	for caller := range callers {
		go func() {
			var err error
			for n := 0; n < calls/callers && err == nil; n++ {
				q, call := question{kind: "spend", charges: []limiter.Charge{charge}}, store.Spend
				if n%4 == 3 {
					q.kind, call = "peek", store.Peek
				}
				err = r.call(caller, 0, q, func() ([]limiter.Decision, error) { return call(t.Context(), q.charges) })
			}
			failed <- err
		}()
	}
	for range callers {
		if err := <-failed; err != nil {
			t.Fatal(err)
		}
	}
	return r.history
}
