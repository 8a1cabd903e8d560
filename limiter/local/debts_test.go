package local_test

import (
	"testing"
	"time"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/local"
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
