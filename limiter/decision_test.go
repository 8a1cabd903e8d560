package limiter_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weir-dev/weir/limiter"
)

func TestCompareStrictness_OrdersStrictestFirst(t *testing.T) {
	strictestFirst := []limiter.Decision{
		{Limit: 5, RetryAfter: limiter.Never},
		{Limit: 1000, Remaining: 900, RetryAfter: time.Hour}, // a cost above what is left
		{Limit: 5, RetryAfter: time.Minute},
		{Allowed: true, Limit: 1_000_000_000, Remaining: 0},
		{Allowed: true, Limit: 1_000_000_000, Remaining: 499_999_999},
		{Allowed: true, Limit: 2, Remaining: 1},
		{Allowed: true, Limit: 1_000_000_000, Remaining: 500_000_001},
		{Allowed: true, Limit: 7, Remaining: 7},
	}
	got := slices.Clone(strictestFirst)
	slices.Reverse(got)
	slices.SortFunc(got, limiter.CompareStrictness)
	if diff := cmp.Diff(strictestFirst, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	equal := limiter.CompareStrictness(
		limiter.Decision{Allowed: true, Limit: 10, Remaining: 5}, limiter.Decision{Allowed: true, Limit: 100, Remaining: 50})
	if equal != 0 {
		t.Errorf("5 of 10 and 50 of 100 compare as %d, want 0", equal)
	}
}

func TestCounted_HasTheRemainingUnitsOfASpend(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		limit := drawLimit(rt, rapid.SampledFrom(limiter.Algorithms()).Draw(rt, "algorithm"))
		isBucket := limit.Algorithm() == limiter.TokenBucket || limit.Algorithm() == limiter.LeakyBucket
		now := noon
		states := []limiter.State{limit.NewState()}
		for range 20 {
			now += limiter.Instant(rapid.Int64Range(0, limit.Window().Microseconds()/4).Draw(rt, "wait"))
			c := []limiter.Charge{{Limit: limit, Cost: rapid.Int64Range(0, 1+capacityOf(limit)/3).Draw(rt, "cost")}}
			peeked := limiter.Peek(now, c, states)[0]
			spent := limiter.Spend(now, c, states)[0]
			if !peeked.Allowed {
				continue
			}
			counted := c[0].Counted(peeked)
			if counted.Remaining != spent.Remaining || !counted.Allowed || counted.Delay != spent.Delay {
				rt.Fatalf("%v at %v: peeked %+v, counted %+v, spent %+v", limit, now, peeked, counted, spent)
			}
			if late := counted.ResetAfter - spent.ResetAfter; isBucket && (late < 0 || late > time.Microsecond) {
				rt.Fatalf("%v at %v: reset after %v, want %v", limit, now, counted.ResetAfter, spent.ResetAfter)
			}
		}
	})
}

// A debt is counted in full, and can be larger than what remains.
func TestCounted_LeavesNoNegativeUnits(t *testing.T) {
	limit, err := limiter.NewLimit(limiter.FixedWindow, 5, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	c := limiter.Charge{Limit: limit, Cost: 7, Debt: true}
	if d := c.Counted(limiter.Decision{Allowed: true, Remaining: 3}); d.Remaining != 0 {
		t.Errorf("%d units remain, want 0", d.Remaining)
	}
}
