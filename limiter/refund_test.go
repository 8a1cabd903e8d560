package limiter_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/memstore"
)

// admitted returns the model of a history with exactly these admissions.
func admitted(limit limiter.Limit, list []admission) model {
	m := newModel(limit)
	for _, a := range list {
		m.admit(a.at, a.units)
	}
	return m
}

// Random spends, each refunded at most once: whatever is admitted is also admitted by the definition for the spends that were not
// refunded.
func TestRefund_LimitHoldsForWhatWasNotRefunded(t *testing.T) {
	for _, algorithm := range limiter.Algorithms() {
		t.Run(string(algorithm), func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				limit := drawLimit(rt, algorithm)
				state := limit.NewState()
				var kept []admission
				now := limiter.At(time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC))
				for range rapid.IntRange(1, 30).Draw(rt, "steps") {
					now += limiter.Instant(rapid.Int64Range(0, limit.Window().Microseconds()/3).Draw(rt, "wait"))
					if len(kept) > 0 && rapid.IntRange(0, 2).Draw(rt, "refund") == 0 {
						i := rapid.IntRange(0, len(kept)-1).Draw(rt, "which")
						state.Refund(now, limit, kept[i].units, kept[i].at)
						kept = slices.Delete(kept, i, i+1)
						continue
					}
					cost := rapid.Int64Range(1, capacityOf(limit)).Draw(rt, "cost")
					d := state.Decide(now, limit, cost)
					if !d.Allowed {
						continue
					}
					if !passes(admitted(limit, kept), limit, now, cost) {
						rt.Fatalf("cost %d admitted over %v", cost, kept)
					}
					state.Spend(now, limit, cost)
					kept = append(kept, admission{d.At, cost})
				}
			})
		})
	}
}

// Redis Cluster depends on it when a request is charged in one slot and denied in another.
func TestRefund_ImmediatelyAfterASpendRestoresTheState(t *testing.T) {
	for _, algorithm := range limiter.Algorithms() {
		t.Run(string(algorithm), func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				limit := drawLimit(rt, algorithm)
				state := limit.NewState()
				now := limiter.At(time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC))
				for range rapid.IntRange(1, 10).Draw(rt, "steps") {
					now += limiter.Instant(rapid.Int64Range(0, limit.Window().Microseconds()/3).Draw(rt, "wait"))
					cost := rapid.Int64Range(1, capacityOf(limit)).Draw(rt, "cost")
					before := state.Decide(now, limit, cost)
					if !before.Allowed {
						continue
					}
					state.Spend(now, limit, cost)
					if rapid.Bool().Draw(rt, "keep") {
						continue
					}
					state.Refund(now, limit, cost, before.At)
					if after := state.Decide(now, limit, cost); after != before {
						rt.Fatalf("before %+v, after %+v", before, after)
					}
				}
			})
		})
	}
}

// After a refund, exactly the other units count, and for as long as they would have counted.
func TestRefund_LeavesTheOtherUnits(t *testing.T) {
	const minute = time.Minute
	for name, test := range map[string]struct {
		algorithm limiter.Algorithm
		spends    []admission // at times since noon, a full minute
		refund    int         // index of the spend
		now       time.Duration
		used      int64
	}{
		"as many units in this window as in the one before": {
			limiter.SlidingWindowCounter, []admission{{0, 20}, {60_000_000, 20}, {60_000_000, 10}}, 2, minute, 40,
		},
		"units of a log after others have expired": {limiter.SlidingWindowLog, []admission{{0, 1}, {30_000_000, 5}, {40_000_000, 2}}, 1, minute + time.Second, 2},
		"some units of an instant of a log":        {limiter.SlidingWindowLog, []admission{{0, 1}, {30_000_000, 5}, {30_000_000, 2}}, 1, minute + time.Second, 2},
		"units of a log that have expired":         {limiter.SlidingWindowLog, []admission{{0, 1}, {30_000_000, 5}}, 0, minute, 5},
		"units of a window that has ended":         {limiter.FixedWindow, []admission{{0, 7}, {60_000_000, 5}}, 0, minute, 5},
		"units of the window before the last one":  {limiter.SlidingWindowCounter, []admission{{0, 7}, {60_000_000, 5}, {120_000_000, 3}}, 0, 2 * minute, 8},
	} {
		limit := mustLimit(t, test.algorithm, 100, minute)
		state := limit.NewState()
		for _, s := range test.spends {
			state.Spend(noon+s.at, limit, s.units)
		}
		state.Refund(noon.Add(test.now), limit, test.spends[test.refund].units, noon+test.spends[test.refund].at)
		if got := usedOf(state, limit, noon.Add(test.now)); got != test.used {
			t.Errorf("%s: %d units count, want %d", name, got, test.used)
		}
	}
}

// refundingStore counts the calls that a refund makes.
type refundingStore struct {
	limiter.Store

	peeks, refunds int
}

func (s *refundingStore) Peek(ctx context.Context, charges []limiter.Charge) ([]limiter.Decision, error) {
	s.peeks++
	return s.Store.Peek(ctx, charges)
}

func (s *refundingStore) Refund(ctx context.Context, refunds []limiter.Refund) error {
	s.refunds++
	return s.Store.Refund(ctx, refunds)
}

// Only a log has units of several instants.
func TestRefundLatest_CallsTheStoreAgainOnlyForOlderUnitsOfALog(t *testing.T) {
	for _, test := range []struct {
		algorithm             limiter.Algorithm
		spends                []int64 // one per second
		refund, peeks, rounds int64
	}{
		{limiter.FixedWindow, []int64{1, 1}, 9, 1, 1},
		{limiter.SlidingWindowCounter, []int64{1, 1}, 1, 1, 1},
		{limiter.TokenBucket, []int64{2}, 9, 1, 1},
		{limiter.SlidingWindowLog, nil, 1, 1, 1},
		{limiter.SlidingWindowLog, []int64{2}, 2, 2, 1},
		{limiter.SlidingWindowLog, []int64{1, 1}, 2, 4, 2},
	} {
		limit, err := limiter.NewLimit(test.algorithm, 4, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		now := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
		store := &refundingStore{Store: memstore.New(func() time.Time { return now })}
		for _, cost := range test.spends {
			now = now.Add(time.Second)
			if _, err := store.Spend(t.Context(), []limiter.Charge{{Key: "a", Limit: limit, Cost: cost}}); err != nil {
				t.Fatal(err)
			}
		}
		if err := limiter.RefundLatest(t.Context(), store, limiter.Refund{Key: "a", Limit: limit, Cost: test.refund, Latest: true}); err != nil {
			t.Fatal(err)
		}
		if store.peeks != int(test.peeks) || store.refunds != int(test.rounds) {
			t.Errorf("%s: %d peeks and %d refunds of %v, want %d and %d", test.algorithm, store.peeks, store.refunds, test.spends, test.peeks, test.rounds)
		}
	}
}
