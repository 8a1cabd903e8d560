package local_test

import (
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

// A limit that was lowered drains what the store has counted at the lower rate.
func TestLearn_AppliesTheLimitOfTheLastDecision(t *testing.T) {
	clock := newClock()
	store, c := memstore.New(clock.Now), local.New(plenty, clock.Now)
	fast, slow := limit(t, limiter.TokenBucket, 600, time.Minute), limit(t, limiter.TokenBucket, 60, time.Minute)
	learn(t, store, c, one("key", fast, 10)) // drains in one second
	learn(t, store, c, one("key", slow, 10))
	clock.pass(5 * time.Second)
	if d := c.Peek(one("key", slow, 0))[0]; d.Remaining != 60-20+5 {
		t.Errorf("%d units are left of 60 after 20 were spent and 5 drained", d.Remaining)
	}
}

// The units of a log expire a window after they were spent, not a window after the decision that the replica has seen.
func TestLearn_DatesTheUnitsOfALogThatOtherReplicasSpent(t *testing.T) {
	clock := newClock()
	store, c := memstore.New(clock.Now), local.New(plenty, clock.Now)
	l := limit(t, limiter.SlidingWindowLog, 10, time.Minute)
	if _, err := store.Spend(t.Context(), one("key", l, 4)); err != nil {
		t.Fatal(err)
	}
	clock.pass(45 * time.Second)
	learn(t, store, c, one("key", l, 0))
	clock.pass(15*time.Second - time.Microsecond)
	if left := c.Peek(one("key", l, 0))[0].Remaining; left != 6 {
		t.Errorf("%d units are left before the window ends, want 6", left)
	}
	clock.pass(time.Microsecond)
	if left := c.Peek(one("key", l, 0))[0].Remaining; left != 10 {
		t.Errorf("%d units are left after the window, want 10", left)
	}
}

// A decision that spends nothing does not prolong the time for which units count.
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

func TestReturns_CountersOnWhichUnitsWereSpentHere(t *testing.T) {
	clock := newClock()
	store, c := memstore.New(clock.Now), local.New(plenty, clock.Now)
	l := limit(t, limiter.FixedWindow, 10, time.Minute)
	returns := func(what string, want bool) {
		t.Helper()
		if got := c.Returns("key", time.Second); got != want {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	returns("an unknown counter", false)
	learn(t, store, c, one("key", l, 1))
	returns("units that the store has counted", false)
	c.Reserve(one("key", l, 1))
	returns("units that the store is about to count", false)
	c.Spend(one("key", l, 0))
	returns("a request that costs nothing", false)
	c.Spend(one("key", l, 11))
	returns("a denied request", false)
	c.Spend(one("key", l, 1))
	clock.pass(5 * time.Second)
	returns("the first time since a unit was spent here", true)
	clock.pass(time.Second - time.Microsecond)
	returns("almost a second later", true)
	clock.pass(time.Microsecond)
	returns("a second later", false)
	c.Spend(one("key", l, 1))
	returns("the first time since another unit was spent here", true)
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
	charges := []limiter.Charge{{Key: "denied", Limit: l, Cost: 8, Shadow: true}, {Key: "free", Limit: l}, {Key: "key", Limit: l, Cost: 4}}
	c.Spend([]limiter.Charge{{Key: "denied", Limit: l, Cost: 3}, {Key: "free", Limit: l, Cost: 3}})
	c.Refund(charges, c.Spend(charges))
	for key, want := range map[string]int64{"denied": 7, "free": 7, "key": 10} {
		if left := c.Peek(one(key, l, 0))[0].Remaining; left != want {
			t.Errorf("%s: %d units are left after the refund, want %d", key, left, want)
		}
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

// A limit that changes while the store is unavailable applies to what was spent under the previous one.
func TestSpend_AppliesAChangedLimitToTheUnitsThatAreSpent(t *testing.T) {
	clock := newClock()
	c := local.New(plenty, clock.Now)
	c.Share(local.Peers{Replicas: 2})
	c.Spend(one("key", limit(t, limiter.FixedWindow, 10, time.Minute), 5))
	for _, want := range []struct{ units, left int64 }{{30, 10}, {12, 1}, {10, 0}, {4, 0}} {
		d := c.Peek(one("key", limit(t, limiter.FixedWindow, want.units, time.Minute), 0))[0]
		if d.Remaining != want.left || d.Limit != want.units {
			t.Errorf("limit %d: %d of %d units are left for this replica of two, want %d", want.units, d.Remaining, d.Limit, want.left)
		}
	}
	if charge, _ := c.TakeUnreported("key"); charge.Cost > 5 {
		t.Errorf("%d units are unreported, want the 5 that were spent", charge.Cost)
	}
}

func TestRefund_IgnoresCountersThatWereEvicted(t *testing.T) {
	c := local.New(oneCounter, newClock().Now)
	l := limit(t, limiter.FixedWindow, 10, time.Minute)
	charges := one("key", l, 4)
	decisions := c.Spend(charges)
	c.Spend(one("other", l, 1)) // evicts key
	c.Refund(charges, decisions)
	if left := c.Peek(one("key", l, 0))[0].Remaining; left > 6 {
		t.Errorf("%d units are left, want at most 6", left)
	}
}

// A refund by a caller that knows no instant takes the units that were spent last, of a log too.
func TestRefundLatest_RefundsTheUnitsThatWereSpentLast(t *testing.T) {
	for _, algorithm := range allAlgorithms() {
		for _, replicas := range []int64{1, 3} {
			clock := newClock()
			store, c := memstore.New(clock.Now), local.New(plenty, clock.Now)
			c.Share(local.Peers{Replicas: replicas})
			l := limit(t, algorithm, 90, time.Hour)
			if algorithm == limiter.LeakyBucket {
				l, _ = l.WithBurst(89)
			}
			learn(t, store, c, one("key", l, 30))
			for range 3 { // at instants that a coarse log distinguishes
				clock.pass(time.Minute)
				c.Spend(one("key", l, 2))
			}
			clock.pass(time.Second)
			before := c.Peek(one("key", l, 0))[0]
			c.RefundLatest(one("key", l, 4)[0])
			after := c.Peek(one("key", l, 0))[0]
			if got := after.Remaining - before.Remaining; got != 4 {
				t.Errorf("%s, %d replicas: %d units were refunded, want 4", algorithm, replicas, got)
			}
			if algorithm == limiter.SlidingWindowLog && before.ResetAfter-after.ResetAfter != 2*time.Minute {
				t.Errorf("the newest unit is %v older, want that of two spends before", before.ResetAfter-after.ResetAfter)
			}
		}
	}
}

// A refund of more than was spent leaves an empty counter.
func TestRefundLatest_RefundsNoMoreThanWasSpent(t *testing.T) {
	for _, algorithm := range allAlgorithms() {
		c := local.New(plenty, newClock().Now)
		l := limit(t, algorithm, 10, time.Hour)
		c.RefundLatest(one("unknown", l, 4)[0])
		c.Spend(one("key", l, 3))
		c.RefundLatest(one("key", l, 0)[0])
		c.RefundLatest(one("key", l, 4)[0])
		for _, key := range []string{"key", "unknown"} {
			if left := c.Peek(one(key, l, 0))[0].Remaining; left != l.Capacity() {
				t.Errorf("%s: %s has %d units left, want %d", algorithm, key, left, l.Capacity())
			}
		}
		if c.HasUnreported() {
			t.Errorf("%s: units are unreported", algorithm)
		}
	}
}

// The units of a coarse log count for up to a 64th of the window too long. New units are not mistaken for those.
func TestLearn_KnowsWhenTheUnitsOfALogWereSpent(t *testing.T) {
	clock := newClock()
	store, c := memstore.New(clock.Now), local.New(plenty, clock.Now)
	l := limit(t, limiter.SlidingWindowLog, 64, 64*time.Second)
	for range 64 { // within a 64th of the window
		learn(t, store, c, one("key", l, 1))
		clock.pass(15 * time.Millisecond)
	}
	clock.pass(63*time.Second + 40*time.Millisecond)
	for range 32 { // as the first units expire
		learn(t, store, c, one("key", l, 1))
		clock.pass(15 * time.Millisecond)
	}
	clock.pass(time.Second) // the first units have expired
	if left := c.Peek(one("key", l, 0))[0].Remaining; left != 32 {
		t.Errorf("%d units are left of 64 after 32", left)
	}
}
