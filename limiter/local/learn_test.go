package local_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/local"
	"github.com/weir-dev/weir/limiter/memstore"
)

// The store decides again on a counter while this replica still has units that are not reported: both count.
func TestLearn_KeepsTheUnitsThatAreNotReported(t *testing.T) {
	for _, replicas := range []int64{1, 3} {
		clock := newClock()
		store, c := memstore.New(clock.Now), local.New(plenty, clock.Now)
		c.Share(local.Peers{Replicas: replicas})
		l := limit(t, limiter.FixedWindow, 90, time.Minute)
		learn(t, store, c, one("key", l, 10))
		for range 6 {
			c.Spend(one("key", l, 1))
		}
		learn(t, store, c, one("key", l, 20)) // 30 in the store, 6 here
		if left, want := c.Peek(one("key", l, 0))[0].Remaining, (90-30-6*replicas+replicas-1)/replicas; left != want {
			t.Errorf("%d replicas: %d units are left, want %d", replicas, left, want)
		}
		if charge, _ := c.TakeUnreported("key"); charge.Cost != 6 {
			t.Errorf("%d replicas: %d units are unreported, want 6", replicas, charge.Cost)
		}
	}
}

func TestLearn_AppliesTheLimitOfTheLastDecision(t *testing.T) {
	clock := newClock()
	store, c := memstore.New(clock.Now), local.New(plenty, clock.Now)
	learn(t, store, c, one("key", limit(t, limiter.FixedWindow, 10, time.Minute), 1))
	hour := limit(t, limiter.FixedWindow, 10, time.Hour)
	learn(t, store, c, one("key", hour, 1))
	clock.pass(10 * time.Minute)
	if d := c.Peek(one("key", hour, 0))[0]; d.Remaining == 10 {
		t.Errorf("%+v, want the unit of the last decision to count for an hour", d)
	}
}

// The units of a log expire a window after they were spent, not a window after the decision that the replica has seen.
func TestLearn_KnowsWhenTheNewestUnitOfALogExpires(t *testing.T) {
	clock := newClock()
	store, c := memstore.New(clock.Now), local.New(plenty, clock.Now)
	l := limit(t, limiter.SlidingWindowLog, 10, time.Minute)
	learn(t, store, c, one("key", l, 4))
	clock.pass(45 * time.Second)
	learn(t, store, c, one("key", l, 0)) // a decision that spends nothing
	clock.pass(15*time.Second - time.Microsecond)
	if left := c.Peek(one("key", l, 0))[0].Remaining; left != 6 {
		t.Errorf("%d units are left before the window ends, want 6", left)
	}
	clock.pass(time.Microsecond)
	if left := c.Peek(one("key", l, 0))[0].Remaining; left != 10 {
		t.Errorf("%d units are left after the window, want 10", left)
	}
}

func TestSpentWithin_ReportsLocalUnitsOfTheLastMoment(t *testing.T) {
	clock := newClock()
	store, c := memstore.New(clock.Now), local.New(plenty, clock.Now)
	l := limit(t, limiter.FixedWindow, 10, time.Minute)
	within := func(what string, want bool) {
		t.Helper()
		if got := c.SpentWithin("key", time.Second); got != want {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	within("an unknown counter", false)
	learn(t, store, c, one("key", l, 1))
	within("units that the store has counted", false)
	c.Reserve(one("key", l, 1))
	within("units that the store is about to count", false)
	c.Spend(one("key", l, 0))
	within("a request that costs nothing", false)
	c.Spend(one("key", l, 11))
	within("a denied request", false)
	c.Spend(one("key", l, 1))
	within("a unit that was spent here", true)
	clock.pass(time.Second - time.Microsecond)
	within("almost a second ago", true)
	clock.pass(time.Microsecond)
	within("a second ago", false)
}

// A request that costs nothing, or a charge that is denied in shadow, leaves nothing to report.
func TestSpend_HasNothingToReportForChargesThatSpendNothing(t *testing.T) {
	clock := newClock()
	store, c := memstore.New(clock.Now), local.New(plenty, clock.Now)
	l := limit(t, limiter.FixedWindow, 10, time.Minute)
	learn(t, store, c, one("key", l, 1))
	c.Spend(one("key", l, 0))
	c.Spend([]limiter.Charge{{Key: "key", Limit: l, Cost: 11, Shadow: true}})
	c.Reserve(one("key", l, 1))
	if stats := c.Stats(); c.HasUnreported() || stats.Unreported != 0 {
		t.Errorf("there are unreported units: %+v", stats)
	}
}

func TestRefund_SkipsChargesThatSpentNothing(t *testing.T) {
	c := local.New(plenty, newClock().Now)
	l := limit(t, limiter.FixedWindow, 10, time.Minute)
	charges := []limiter.Charge{{Key: "denied", Limit: l, Cost: 11, Shadow: true}, {Key: "free", Limit: l}, {Key: "key", Limit: l, Cost: 4}}
	c.Refund(charges, c.Spend(charges))
	if left := c.Peek(one("key", l, 0))[0].Remaining; left != 10 {
		t.Errorf("%d units are left after the refund, want 10", left)
	}
}

// A limit that admits nothing for this replica still decides requests that cost nothing.
func TestSpend_AllowsARequestWithoutCostOnAnEmptyShare(t *testing.T) {
	c := local.New(plenty, newClock().Now)
	c.Share(local.Peers{Replicas: 3, Rank: 2})
	l := limit(t, limiter.FixedWindow, 2, time.Minute)
	if d := c.Spend(one("key", l, 0))[0]; !d.Allowed || d.Remaining != 0 {
		t.Errorf("%+v, want allowed with 0 remaining", d)
	}
}

// When the memory is full, the counters with the smallest part of their limit go first, and never the one that is spent on.
func TestSpend_EvictsTheCountersWithTheSmallestUsage(t *testing.T) {
	clock := newClock()
	c := local.New(4*3000, clock.Now) // some 9000 bytes for counters of about 280 bytes
	l := limit(t, limiter.FixedWindow, 100, time.Hour)
	used := func(key string) int64 { return 100 - c.Peek(one(key, l, 0))[0].Remaining }
	for range 90 {
		c.Spend(one("heavy", l, 1))
	}
	before := c.Stats()
	for i := range 200 {
		c.Spend(one(fmt.Sprint("light-", i), l, 2))
	}
	stats := c.Stats()
	if stats.Held < 20 || stats.Held > 45 || stats.Evicted != int64(201-stats.Held) || stats.Lost != 2*stats.Evicted {
		t.Errorf("after 200 counters: %+v", stats)
	}
	if got := used("heavy"); got != 90 || before.Evicted != 0 {
		t.Errorf("%d units count on the counter with the highest usage, want 90", got)
	}
	estimated := c.Stats().Estimated
	if got := used("light-0"); got < 2 {
		t.Errorf("%d units count on a counter that may be evicted, want at least 2", got)
	}
	used("never seen")
	if n := c.Stats().Estimated; n < estimated {
		t.Errorf("%d estimates, %d before", n, estimated)
	}
	clock.pass(time.Hour)
	if got := used("light-0"); got != 0 {
		t.Errorf("%d units count after the window, want 0", got)
	}
}
