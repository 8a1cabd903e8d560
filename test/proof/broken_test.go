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

// checkThenCount is a Store whose Spend first peeks and then counts, in two calls. A single caller sees no difference. It
// works for a FixedWindow of one key.
type checkThenCount struct{ limiter.Store }

func (s checkThenCount) Spend(ctx context.Context, charges []limiter.Charge) ([]limiter.Decision, error) {
	peeked, err := s.Peek(ctx, charges)
	if err != nil || !peeked[0].Allowed {
		return peeked, err
	}
	// Count without deciding: under a limit that is never reached.
	charge := charges[0]
	if charge.Limit, err = limiter.NewLimit(charge.Limit.Algorithm(), limiter.MaxUnits, charge.Limit.Window()); err != nil {
		return nil, err
	}
	counted, err := s.Store.Spend(ctx, []limiter.Charge{charge})
	if err != nil {
		return nil, err
	}
	decision := counted[0]
	decision.Limit, decision.Remaining = peeked[0].Limit, peeked[0].Remaining-charge.Cost
	return []limiter.Decision{decision}, nil
}

// lostSpend is a Store that loses one spend.
type lostSpend struct {
	limiter.Store

	spends *atomic.Int64
}

// lostNumber is the number of the lost spend among those that were counted.
const lostNumber = 20

func (s lostSpend) Spend(ctx context.Context, charges []limiter.Charge) ([]limiter.Decision, error) {
	decisions, err := s.Store.Spend(ctx, charges)
	if err != nil || !decisions[0].Allowed || s.spends.Add(1) != lostNumber {
		return decisions, err
	}
	return decisions, s.Refund(ctx, []limiter.Refund{
		{Key: charges[0].Key, Limit: charges[0].Limit, Cost: charges[0].Cost, At: decisions[0].At},
	})
}

// stalePeek is a Store that returns the remaining units of the previous peek.
type stalePeek struct {
	limiter.Store

	last *atomic.Pointer[[]limiter.Decision]
}

func (s stalePeek) Peek(ctx context.Context, charges []limiter.Charge) ([]limiter.Decision, error) {
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

func TestCheckLinearizable_FindsABrokenStore(t *testing.T) {
	server := fixture.Redis(t)
	correct := redisstore.NewStore(open(t, server.URL(), longTimeout), longTimeout)
	limit, err := limiter.NewLimit(limiter.FixedWindow, 100, limiter.MaxWindow)
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		store   limiter.Store
		callers int
		found   bool
	}{
		"a correct store":                    {correct, callers, false},
		"check, then count, with one caller": {checkThenCount{correct}, 1, false},
		"check, then count":                  {checkThenCount{correct}, callers, true},
		"a lost spend":                       {lostSpend{correct, &atomic.Int64{}}, callers, true},
		"a stale peek":                       {stalePeek{correct, &atomic.Pointer[[]limiter.Decision]{}}, callers, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			history := callConcurrently(t, test.store, limiter.Charge{Key: key(name, "broken", limit), Limit: limit, Cost: 1}, test.callers)
			err := checkLinearizable(history, groupOf, checkTimeout)
			var not *linearityError
			if found := errors.As(err, &not); found != test.found || (err != nil && !found) {
				t.Errorf("not linearizable: %v, want %v: %v", found, test.found, err)
			}
		})
	}
}

// callConcurrently makes calls on one key without pauses.
func callConcurrently(t *testing.T, store limiter.Store, charge limiter.Charge, callers int) []porcupine.Operation {
	t.Helper()
	const calls = 240 // more than the limit
	r := &recorder{began: time.Now()}
	failed := make(chan error, callers)
	for caller := range callers {
		go func() {
			var err error
			for n := 0; n < calls/callers && err == nil; n++ {
				q, call := operation{kind: "spend", charges: []limiter.Charge{charge}}, store.Spend
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
