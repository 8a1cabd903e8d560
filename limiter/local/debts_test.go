package local_test

import (
	"testing"
	"time"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/local"
	"github.com/weir-dev/weir/limiter/memstore"
)

func TestSpend_CountsDebtsOfDeniedRequests(t *testing.T) {
	c := local.New(plenty, newClock().Now)
	c.Share(local.Peers{Replicas: 2})
	l := limit(t, limiter.FixedWindow, 10, time.Minute)
	debt := one("debt", l, 4)[0]
	debt.Debt = true
	full := one("full", limit(t, limiter.FixedWindow, 1, time.Minute), 2)[0]
	if d := c.Spend([]limiter.Charge{debt, full}); !d[0].Allowed || d[1].Allowed || d[0].Remaining != 1 {
		t.Errorf("%+v, want 1 of the 5 units of this replica left", d)
	}
	if d := c.Spend([]limiter.Charge{debt}); !d[0].Allowed || d[0].Remaining != 0 {
		t.Errorf("%+v", d)
	}
	if d := c.Spend([]limiter.Charge{debt}); d[0].Allowed {
		t.Errorf("%+v", d)
	}
	if charge, has := c.TakeUnreported("debt"); !has || charge.Cost != 6 {
		t.Errorf("%+v, %v, want half of the limit reported, rounded up, and nothing of the debt above the limit", charge, has)
	}
	if keys := c.UnreportedKeys(9); len(keys) != 0 {
		t.Errorf("%v have unreported units", keys)
	}
}

// There are more replicas than units. A replica without a unit denies, and counts nothing.
func TestSpend_AReplicaWithoutAUnitCountsNoDebt(t *testing.T) {
	c := local.New(plenty, newClock().Now)
	c.Share(local.Peers{Replicas: 3, Rank: 2})
	debt := one("debt", limit(t, limiter.FixedWindow, 2, time.Minute), 4)
	debt[0].Debt = true
	if d := c.Spend(debt); d[0].Allowed || c.HasUnreported() {
		t.Errorf("%+v, unreported: %v", d, c.HasUnreported())
	}
}

// While a counter is in debt, 0 units remain before and after a refund of a part of it. The refund counts once nevertheless.
func TestRefundLatest_RefundsUnitsOfADebtOnce(t *testing.T) {
	for _, algorithm := range []limiter.Algorithm{limiter.FixedWindow, limiter.SlidingWindowCounter} {
		for _, test := range []struct{ replicas, spent, refunded, left, unreported int64 }{
			{1, 150, 100, 50, 50},
			{1, 300, 250, 50, 50},
			{1, 300, 150, 0, 100},
			{3, 60, 30, 4, 30},
		} {
			c := local.New(plenty, newClock().Now)
			c.Share(local.Peers{Replicas: test.replicas})
			l := limit(t, algorithm, 100, time.Minute)
			debt := one("key", l, test.spent)
			debt[0].Debt = true
			c.Spend(debt)
			c.RefundLatest(one("key", l, test.refunded)[0])
			left := c.Peek(one("key", l, 0))[0].Remaining
			if charge, _ := c.TakeUnreported("key"); left != test.left || charge.Cost != test.unreported {
				t.Errorf("%s, %+v: %d units are left and %d unreported", algorithm, test, left, charge.Cost)
			}
		}
	}
}

// The store has counted 80 units of 100, and 40 more were spent here, which is more than the limit.
func TestRefundLatest_RefundsUnitsAboveTheLimitOnce(t *testing.T) {
	clock := newClock()
	store, c := memstore.New(clock.Now), local.New(plenty, clock.Now)
	l := limit(t, limiter.SlidingWindowLog, 100, time.Hour)
	c.Spend(one("key", l, 40))
	clock.pass(time.Minute)
	learn(t, store, c, one("key", l, 80))
	c.RefundLatest(one("key", l, 40)[0])
	if left := c.Peek(one("key", l, 0))[0].Remaining; left != 20 {
		t.Errorf("%d units are left, want 20", left)
	}
}
