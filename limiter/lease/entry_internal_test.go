package lease

import (
	"strconv"
	"testing"
	"time"

	"github.com/weir-dev/weir/limiter"
)

// now is the time in these tests, long after the Leases were created.
const now = instant(100 * time.Second)

func leaseCharge(limit limiter.Limit, cost int64) *limiter.Charge {
	return &limiter.Charge{Key: "key", Limit: limit, Cost: cost, Lease: &limiter.LeaseTerms{MaxPercent: 10, MaxAge: time.Second}}
}

func newLeases() *Leases {
	start := time.Unix(1_800_000_000, 0)
	l := New(nil, func() time.Time { return start.Add(time.Duration(now)) })
	l.base = start
	return l
}

// One second ago, the store had 10 000 of 10 000 units left. This replica has charged 59 units since then.
func demanding(t testing.TB) (*entry, limiter.Limit) {
	return &entry{key: "key", since: now - at(time.Second), used: 59, left: 10_000}, logLimit(t, 10_000)
}

func TestPlan_LeasesTheDemandSinceTheLastLease(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*entry)                // before
		lease  func(l limiter.Limit) *held // of the entry; nil: no lease
		limit  int64                       // of the charge
		want   int64
	}{
		"60 units without a lease":       {nil, nil, 0, 16},
		"60 units, 40 of the last lease": {nil, func(l limiter.Limit) *held { return leased(l, 40, 0, now) }, 0, 112},
		"60 units, 30 of the last lease": {nil, func(l limiter.Limit) *held { return leased(l, 40, 10, now) }, 0, 101},
		"a lease with a quarter left":    {nil, func(l limiter.Limit) *held { return leased(l, 40, 10, now+1) }, 0, 0},
		"a lease with less left":         {nil, func(l limiter.Limit) *held { return leased(l, 40, 9, now+1) }, 0, 102},
		"a lease of another limit":       {nil, func(limiter.Limit) *held { return leased(logLimit(t, 7), 40, 0, now+1) }, 0, 0},
		"an old lease of another limit":  {nil, func(limiter.Limit) *held { return leased(logLimit(t, 7), 40, 0, now) }, 0, 112},
		"a lease is being made":          {func(e *entry) { e.spending = true }, nil, 0, 0},
		"the entry is removed":           {func(e *entry) { e.removed = true }, nil, 0, 0},
		"before the next attempt":        {func(e *entry) { e.retryAt = now + 1 }, nil, 0, 0},
		"at the next attempt":            {func(e *entry) { e.retryAt = now }, nil, 0, 16},
	} {
		e, limit := demanding(t)
		if test.change != nil {
			test.change(e)
		}
		if test.lease != nil {
			e.lease.Store(test.lease(limit))
		}
		spending := e.spending
		if got := e.plan(newLeases(), leaseCharge(limit, 1), now); got != test.want {
			t.Errorf("%s: %d units, want %d", name, got, test.want)
		}
		if want := spending || test.want > 0; e.spending != want {
			t.Errorf("%s: spending is %v, want %v", name, e.spending, want)
		}
		if e.used != 60 || e.touched != now || e.maxAge != time.Second {
			t.Errorf("%s: %d units used, touched at %d, age %v", name, e.used, e.touched, e.maxAge)
		}
	}
}

func leased(limit limiter.Limit, size, left int64, until instant) *held {
	h := heldOf(size, left)
	h.limit, h.began, h.expiresAt = limit, until-at(time.Second), until
	return h
}

// The units of a lease that is still used count towards the share.
func TestPlan_TheShareIncludesTheLeaseInUse(t *testing.T) {
	e, _ := demanding(t)
	limit := logLimit(t, 500)
	e.left = 500
	e.lease.Store(leased(limit, 40, 9, now+1))
	if got := e.plan(newLeases(), leaseCharge(limit, 1), now); got != 41 {
		t.Errorf("%d units, want 41 of the share of 50", got)
	}
}

func TestPlan_LeasesNothingForNoUnits(t *testing.T) {
	e, limit := demanding(t)
	if got := e.plan(newLeases(), leaseCharge(limit, 0), now); got != 0 || e.spending {
		t.Errorf("%d units for a cost of 0", got)
	}
}

func TestPlan_ForgetsHalfOfADemandThatIsOld(t *testing.T) {
	for name, test := range map[string]struct {
		age   time.Duration
		left  int64
		used  int64
		since time.Duration
	}{
		"old and too little is left": {2*time.Second + 2, 0, 30, time.Second + 1},
		"not old":                    {2 * time.Second, 0, 60, 2 * time.Second},
		"old and leased":             {2*time.Second + 2, 10_000, 60, 2*time.Second + 2},
	} {
		e, limit := demanding(t)
		e.since, e.left = now-at(test.age), test.left
		e.plan(newLeases(), leaseCharge(limit, 1), now)
		if e.used != test.used || time.Duration(now-e.since) != test.since {
			t.Errorf("%s: %d units in %v, want %d in %v", name, e.used, time.Duration(now-e.since), test.used, test.since)
		}
	}
}

func TestEntryOf_BeginsWithFourChargesInHalfASecond(t *testing.T) {
	for cost, want := range map[int64]int64{1: 11, 2: 16} { // 10 or 20 units a second; the first lease has at most 16
		l := newLeases()
		c := leaseCharge(logLimit(t, 10_000), cost)
		for range 3 {
			if l.entryOf(c, now) != nil {
				t.Fatal("an entry of a counter that is not busy")
			}
		}
		e := l.entryOf(c, now)
		if e == nil || l.entryOf(c, now) != e {
			t.Fatal("no entry of a busy counter")
		}
		if got := e.plan(l, c, now); got != 0 {
			t.Errorf("cost %d: leased %d units before the store has answered", cost, got)
		}
		e.used -= cost
		e.observe(limiter.Decision{Origin: limiter.OriginStore, Remaining: 10_000})
		if got := e.plan(l, c, now+1); got != want {
			t.Errorf("cost %d: the first lease has %d units, want %d", cost, got, want)
		}
	}
}

func TestEntryOf_BoundsTheNumberOfEntries(t *testing.T) {
	l := newLeases()
	for entries, want := range map[int64]bool{49_999: true, 50_000: false} {
		l.count.Store(entries)
		c := leaseCharge(logLimit(t, 10_000), 1)
		c.Key = strconv.FormatInt(entries, 10)
		var e *entry
		for range 10 {
			e = l.entryOf(c, now)
		}
		if (e != nil) != want {
			t.Errorf("with %d entries: another one is %v, want %v", entries, e != nil, want)
		}
	}
}

func TestSettle_EndsTheLeaseThatIsReplaced(t *testing.T) {
	l := newLeases()
	e, limit := demanding(t)
	e.spending = true
	e.lease.Store(leased(limit, 40, 4, now+1))
	next := leased(limit, 80, 80, now+at(time.Second))
	next.began, next.remaining = now, 900
	l.settle(e, next, 0)
	if e.lease.Load() != next || e.spending || e.since != now || e.used != 0 || e.left != 900 {
		t.Errorf("since %d: %d units used, %d left, spending %v", e.since, e.used, e.left, e.spending)
	}
	if admitted := l.metrics.admitted.Load(); admitted != 36 {
		t.Errorf("%d units of the last lease count as admitted, want 36", admitted)
	}
	if returns := l.schedule.returnsBy(now); len(returns) != 1 || returns[0].Cost != 4 {
		t.Errorf("returns %+v, want 4 units of the last lease", returns)
	}
}

func TestSettle_ReturnsTheLeaseOfAnEntryThatWasRemoved(t *testing.T) {
	l := newLeases()
	e, limit := demanding(t)
	e.spending, e.removed = true, true
	l.settle(e, leased(limit, 80, 80, now+at(time.Second)), 0)
	if e.lease.Load() != nil {
		t.Error("the entry has a lease")
	}
	if returns := l.schedule.returnsBy(now); len(returns) != 1 || returns[0].Cost != 80 {
		t.Errorf("returns %+v, want 80 units", returns)
	}
}

func TestSettle_KeepsTheLeaseAfterAFailedAttempt(t *testing.T) {
	l := newLeases()
	e, limit := demanding(t)
	e.spending = true
	old := leased(limit, 40, 4, now+1)
	e.lease.Store(old)
	l.settle(e, nil, now+7)
	if e.lease.Load() != old || e.spending || e.retryAt != now+7 || e.used != 59 || !l.schedule.empty() {
		t.Errorf("spending %v, next attempt at %d, %d units used", e.spending, e.retryAt, e.used)
	}
}
