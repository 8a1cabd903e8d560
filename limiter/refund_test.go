package limiter_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-dev/weir/limiter"
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
	for _, algorithm := range algorithms() {
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
	for _, algorithm := range algorithms() {
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
