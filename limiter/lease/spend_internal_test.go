package lease

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/weir-dev/weir/limiter"
)

// scripted is a store that is always available and decides by a function. It keeps the costs of each call.
type scripted struct {
	limiter.Store

	decide func([]limiter.Charge) ([]limiter.Decision, error)
	costs  [][]int64
}

func (s *scripted) Unavailable(string) bool { return false }

func (s *scripted) Spend(_ context.Context, charges []limiter.Charge) ([]limiter.Decision, error) {
	var costs []int64
	for i := range charges {
		costs = append(costs, charges[i].Cost)
	}
	s.costs = append(s.costs, costs)
	return s.decide(charges)
}

// leasing returns Leases on a store that decides by a function.
func leasing(decide func([]limiter.Charge) ([]limiter.Decision, error)) (*Leases, *scripted) {
	s := &scripted{decide: decide}
	l := newLeases()
	l.remote = s
	return l, s
}

// busyCounter adds an entry that has charged 59 units in the last second.
func (l *Leases) busyCounter(key string, left int64) *entry {
	e := &entry{key: key, since: now - at(time.Second), used: 59, left: left, maxAge: time.Second}
	l.entries.Store(key, e)
	return e
}

func (l *Leases) holds(key string) bool {
	e, ok := l.entries.Load(key)
	return ok && e.(*entry).lease.Load() != nil //nolint:forcetypeassert // all its values have this type
}

func charges(t testing.TB, keys ...string) []limiter.Charge {
	var all []limiter.Charge
	for _, key := range keys {
		c := *leaseCharge(logLimit(t, 10_000), 1)
		c.Key = key
		all = append(all, c)
	}
	return all
}

// allow allows each charge with 5000 units left.
func allow(of []limiter.Charge) ([]limiter.Decision, error) {
	var all []limiter.Decision
	for range of {
		all = append(all, limiter.Decision{Allowed: true, Origin: limiter.OriginStore, Limit: 10_000, Remaining: 5000})
	}
	return all, nil
}

func TestSpend_LeasesForTheChargesThatNeedIt(t *testing.T) {
	l, s := leasing(allow)
	hot, scarce := l.busyCounter("hot", 10_000), l.busyCounter("scarce", 0)
	got, err := l.Borrow(s).Spend(t.Context(), charges(t, "cold", "scarce", "hot"))
	if err != nil || len(s.costs) != 1 || !slices.Equal(s.costs[0], []int64{1, 1, 1 + 16}) {
		t.Fatalf("spent %v, %v; want the charges with a lease of 16 units for the last one", s.costs, err)
	}
	if got[0].Remaining != 5000 || got[1].Remaining != 5000 || got[2].Remaining != 5016 {
		t.Errorf("%+v; the units of the lease are not spent by the request", got)
	}
	if l.holds("cold") || l.holds("scarce") || !l.holds("hot") || hot.spending {
		t.Error("want one lease")
	}
	if scarce.left != 5000 {
		t.Errorf("scarce has %d units left, want the 5000 of the reply", scarce.left)
	}
}

func TestSpend_NeverLeasesExactChargesAndQueues(t *testing.T) {
	queue, err := limiter.NewLimit(limiter.LeakyBucket, 10_000, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*limiter.Charge){
		"a queue":         func(c *limiter.Charge) { c.Limit = queue },
		"without terms":   func(c *limiter.Charge) { c.Lease = nil },
		"a queue without": func(c *limiter.Charge) { c.Limit, c.Lease = queue, nil },
	} {
		l, s := leasing(allow)
		hot := l.busyCounter("hot", 10_000)
		both := charges(t, "hot", "other")
		change(&both[1])
		for range 10 {
			if _, err := l.Borrow(s).Spend(t.Context(), both); err != nil {
				t.Fatal(err)
			}
		}
		for _, costs := range s.costs {
			if !slices.Equal(costs, []int64{1, 1}) {
				t.Errorf("%s: spent %v, want 1 each", name, costs)
			}
		}
		if hot.used != 59 {
			t.Errorf("%s: charged %d units to the demand", name, hot.used-59)
		}
	}
}

// After a failure, the next lease is tried after a quarter of the maximum age.
func TestSpend_TriesAgainAfterAFailure(t *testing.T) {
	failure := errors.New("no reply")
	l, s := leasing(func([]limiter.Charge) ([]limiter.Decision, error) { return nil, failure })
	hot := l.busyCounter("hot", 10_000)
	if _, err := l.Borrow(s).Spend(t.Context(), charges(t, "cold", "hot")); !errors.Is(err, failure) || len(s.costs) != 1 {
		t.Errorf("%v after %d calls", err, len(s.costs))
	}
	if hot.spending || hot.retryAt != now+at(250*time.Millisecond) || l.holds("hot") {
		t.Errorf("spending %v, next attempt at %d", hot.spending, hot.retryAt)
	}
}

// deny decides charges with denials for some keys.
func deny(d limiter.Decision, keys ...string) func(of []limiter.Charge) ([]limiter.Decision, error) {
	return func(of []limiter.Charge) ([]limiter.Decision, error) {
		all, _ := allow(of)
		for i := range of {
			if slices.Contains(keys, of[i].Key) {
				all[i] = d
			}
		}
		return all, nil
	}
}

func TestSpend_LeasesNothingIfAnotherPolicyDenies(t *testing.T) {
	denied := limiter.Decision{Origin: limiter.OriginStore, Limit: 10_000, Remaining: 7, RetryAfter: time.Second}
	l, s := leasing(deny(denied, "cold", "scarce"))
	hot, scarce := l.busyCounter("hot", 10_000), l.busyCounter("scarce", 0)
	for _, keys := range [][]string{{"hot", "cold"}, {"scarce", "cold", "hot"}} {
		hot.retryAt, s.costs = 0, nil
		got, err := l.Borrow(s).Spend(t.Context(), charges(t, keys...))
		if err != nil || len(s.costs) != 1 || len(got) != len(keys) || got[1] != denied {
			t.Errorf("%v: %+v, %v after %d calls; the lease was not the reason", keys, got, err, len(s.costs))
		}
		if l.holds("hot") || hot.spending || hot.retryAt != now+at(250*time.Millisecond) || hot.left != 5000 {
			t.Errorf("%v: a lease: %v, spending %v, next attempt at %d, %d units left", keys, l.holds("hot"), hot.spending, hot.retryAt, hot.left)
		}
	}
	if scarce.left != 7 {
		t.Errorf("scarce has %d units left, want the 7 of the reply", scarce.left)
	}
}

// Undecided: a charge in another store was denied first.
func TestSpend_DoesNotRepeatWhatTheStoreDidNotDecide(t *testing.T) {
	l, s := leasing(deny(limiter.Decision{Origin: limiter.Undecided}, "hot"))
	l.busyCounter("hot", 10_000)
	if _, err := l.Borrow(s).Spend(t.Context(), charges(t, "hot")); err != nil || len(s.costs) != 1 || l.holds("hot") {
		t.Errorf("%v after %d calls, a lease: %v", err, len(s.costs), l.holds("hot"))
	}
}

func TestSpend_RepeatsTheRequestThatIsDeniedWithItsLease(t *testing.T) {
	denied := limiter.Decision{Origin: limiter.OriginStore, Limit: 10_000, Remaining: 3, RetryAfter: time.Second}
	l, s := leasing(nil)
	s.decide = func(of []limiter.Charge) ([]limiter.Decision, error) {
		if of[0].Cost > 1 {
			return deny(denied, "hot")(of)
		}
		all, _ := allow(of)
		all[0].Remaining = 2
		return all, nil
	}
	hot := l.busyCounter("hot", 10_000)
	got, err := l.Borrow(s).Spend(t.Context(), charges(t, "hot"))
	if err != nil || !got[0].Allowed || got[0].Remaining != 2 || len(s.costs) != 2 || s.costs[1][0] != 1 {
		t.Errorf("%+v, %v; spent %v", got, err, s.costs)
	}
	if l.holds("hot") || hot.spending || hot.left != 2 || hot.retryAt != now+at(250*time.Millisecond) {
		t.Errorf("a lease: %v, spending %v, %d units left, next attempt at %d", l.holds("hot"), hot.spending, hot.left, hot.retryAt)
	}
}

func TestSpend_RepeatsAShadowChargeThatIsDeniedWithItsLease(t *testing.T) {
	denied := limiter.Decision{Origin: limiter.OriginStore, Limit: 10_000, Remaining: 3, RetryAfter: time.Second}
	for _, failure := range []error{nil, errors.New("no reply")} {
		l, s := leasing(nil)
		s.decide = func(of []limiter.Charge) ([]limiter.Decision, error) {
			if len(of) == 2 {
				return deny(denied, "shadow")(of)
			}
			all, _ := allow(of)
			all[0].Remaining = 2
			return all, failure
		}
		hot, shadow := l.busyCounter("hot", 10_000), l.busyCounter("shadow", 10_000)
		both := charges(t, "hot", "shadow")
		both[1].Shadow = true
		got, err := l.Borrow(s).Spend(t.Context(), both)
		if err != nil || !got[0].Allowed || got[1].Allowed != (failure == nil) || len(s.costs) != 2 || !slices.Equal(s.costs[1], []int64{1}) {
			t.Errorf("%+v, %v; spent %v", got, err, s.costs)
		}
		if !l.holds("hot") || l.holds("shadow") || hot.spending || shadow.spending || shadow.retryAt != now+at(250*time.Millisecond) {
			t.Errorf("leases: %v, %v; spending %v, %v; next attempt at %d", l.holds("hot"), l.holds("shadow"), hot.spending, shadow.spending, shadow.retryAt)
		}
		if want := map[bool]int64{true: 2, false: 10_000}[failure == nil]; shadow.left != want {
			t.Errorf("the shadow charge has %d units left, want %d", shadow.left, want)
		}
	}
}
