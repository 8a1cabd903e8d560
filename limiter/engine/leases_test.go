package engine_test

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/denials"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/lease"
	"github.com/weir-dev/weir/limiter/memstore"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/store"
)

// available is a store that never fails.
type available struct{ limiter.Store }

func (available) Unavailable(string) bool { return false }

// leasing is an engine with leases on a store of its own. The time is now.
type leasing struct {
	*engine.Engine

	store  *countingStore
	leases *lease.Leases
	now    time.Time
}

func newLeasing(t testing.TB, list ...rules.Rule) *leasing {
	t.Helper()
	l := &leasing{now: epoch().Add(time.Second)}
	clock := func() time.Time { return l.now }
	l.store = &countingStore{Store: memstore.New(clock)}
	l.leases = lease.New(available{l.store}, clock)
	l.Engine, _ = newLayered(l.store, engine.SourceMemory, prometheus.NewRegistry(), store.Layers{Leases: l.leases, Denials: denials.NewCache(10, clock)},
		engine.WithClock(clock))
	l.Swap(index(t, list...))
	return l
}

func leased(policy string, units int64) rules.Rule {
	r := rule(policy, units)
	r.Lease = &rules.Lease{MaxPercent: 10, MaxMilliseconds: 1000}
	return r
}

// warm sends requests, each one millisecond after the other, until one is admitted from a lease.
func (l *leasing) warm(t testing.TB, c *engine.Check) engine.Answer {
	t.Helper()
	for range 100 {
		l.now = l.now.Add(time.Millisecond)
		if a := l.check(t, c); a.Source == engine.SourceLease {
			return a
		}
	}
	t.Fatal("no request was admitted from a lease")
	return engine.Answer{}
}

func (l *leasing) check(t testing.TB, c *engine.Check) engine.Answer {
	t.Helper()
	a, err := l.Check(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// stored returns the units that the store counts for acme under a rule.
func (l *leasing) stored(t testing.TB, r rules.Rule) int64 {
	t.Helper()
	space, err := r.KeySpace("weir:")
	if err != nil {
		t.Fatal(err)
	}
	limit, err := r.Limit()
	if err != nil {
		t.Fatal(err)
	}
	d, err := l.store.Store.Peek(t.Context(), []limiter.Charge{{Key: space.Key("acme", ""), Limit: limit}})
	if err != nil {
		t.Fatal(err)
	}
	return limit.Units() - d[0].Remaining
}

func acmeTimes(cost int64) *engine.Check { return request(cost, map[string]string{"tenant": "acme"}) }

func TestCheck_AdmitsBusyIdentifiersFromMemory(t *testing.T) {
	l := newLeasing(t, leased("shop/a", 1000))
	first := l.warm(t, acmeTimes(1))
	r := first.Results[0]
	if !first.Allowed || r.Limit != 1000 || r.Remaining < 900 || r.Remaining > 999 || r.ResetAfter <= 0 || r.ResetAfter > time.Minute {
		t.Errorf("%+v", first)
	}
	calls := l.store.calls()
	for want := r.Remaining - 1; l.store.calls() == calls; want-- {
		a := l.check(t, acmeTimes(1))
		if a.Source == engine.SourceLease && a.Results[0].Remaining != want {
			t.Fatalf("%d units remain, want %d", a.Results[0].Remaining, want)
		}
	}
}

func TestCheck_LeasesNothingForExactPolicies(t *testing.T) {
	tests := map[string][]rules.Rule{
		"an exact policy":                      {rule("shop/a", 1000)},
		"a leased and an exact policy":         {leased("shop/a", 1000), rule("shop/b", 1000)},
		"a leased and an exact shadow policy":  {leased("shop/a", 1000), shadow(rule("shop/b", 1000))},
		"a leased policy with a tiny share":    {leased("shop/a", 30)},
		"an exact policy and another's leases": {rule("shop/a", 1000), leased("other/a", 1000)},
	}
	for name, list := range tests {
		t.Run(name, func(t *testing.T) {
			first := list[0]
			l := newLeasing(t, list...)
			for i := range int64(20) {
				l.now = l.now.Add(time.Millisecond)
				if a := l.check(t, acmeTimes(1)); a.Source != engine.SourceMemory || l.store.calls() != i+1 || l.stored(t, first) != i+1 {
					t.Fatalf("request %d: %+v; %d units are stored", i, a, l.stored(t, first))
				}
			}
		})
	}
}

func TestCheck_TakesLeasesOfSeveralPoliciesOrNone(t *testing.T) {
	a, b := leased("shop/a", 10_000), leased("shop/b", 100)
	l := newLeasing(t, a, shadow(leased("shop/c", 5000)), b)
	results := l.warm(t, acmeTimes(1)).Results
	if len(results) != 3 || results[0].Rule.Policy != "shop/b" || results[2].Rule.Policy != "shop/c" {
		t.Errorf("%+v", results)
	}
	// shop/b has fewer units left than this request costs: it is denied, and shop/a keeps its units.
	before := l.stored(t, a)
	if denied := l.check(t, acmeTimes(99)); denied.Allowed || l.stored(t, a) != before {
		t.Errorf("%+v; %d units of shop/a are stored, want %d", denied, l.stored(t, a), before)
	}
	if again := l.check(t, acmeTimes(1)); again.Source != engine.SourceLease {
		t.Errorf("%+v, want an answer from the leases", again)
	}
}

func TestCheck_AnEditOfTheLimitEndsTheUseOfALease(t *testing.T) {
	edits := map[string]rules.Rule{"another limit": leased("shop/a", 900), "no lease": rule("shop/a", 1000)}
	for name, edited := range edits {
		t.Run(name, func(t *testing.T) {
			l := newLeasing(t, leased("shop/a", 1000))
			l.warm(t, acmeTimes(1))
			l.Swap(index(t, edited))
			if a := l.check(t, acmeTimes(1)); a.Source != engine.SourceMemory {
				t.Errorf("source %s after the edit, want the store", a.Source)
			}
		})
	}
}

func TestRefund_GivesUnitsBackToTheLease(t *testing.T) {
	l := newLeasing(t, leased("shop/a", 1000))
	before := l.warm(t, acmeTimes(1)).Results[0].Remaining
	stored := l.stored(t, leased("shop/a", 1000))
	if err := l.Refund(t.Context(), []engine.Check{*acmeTimes(1)}); err != nil {
		t.Fatal(err)
	}
	if a := l.check(t, acmeTimes(1)); a.Source != engine.SourceLease || a.Results[0].Remaining != before {
		t.Errorf("%+v, want %d remaining", a, before)
	}
	// More units than the lease can hold are refunded in the store.
	if err := l.Refund(t.Context(), []engine.Check{*acmeTimes(stored)}); err != nil {
		t.Fatal(err)
	}
	if after := l.stored(t, leased("shop/a", 1000)); after >= stored || after == 0 {
		t.Errorf("%d units are stored after a refund of %d, before it %d", after, stored, stored)
	}
}

func TestCheckAll_AdmitsFromLeases(t *testing.T) {
	l := newLeasing(t, leased("shop/a", 1000))
	l.warm(t, acmeTimes(1))
	calls := l.store.calls()
	answers, err := l.CheckAll(t.Context(), []engine.Check{*acmeTimes(1), *acmeTimes(1)})
	if err != nil || len(answers) != 2 || answers[0].Source != engine.SourceLease || !answers[1].Allowed || l.store.calls() != calls {
		t.Errorf("%+v, %v, %d calls", answers, err, l.store.calls()-calls)
	}
}

func TestCheck_PeeksCallTheStore(t *testing.T) {
	l := newLeasing(t, leased("shop/a", 1000))
	l.warm(t, acmeTimes(1))
	peek := acmeTimes(1)
	peek.Peek = true
	if a := l.check(t, peek); a.Source != engine.SourceMemory || l.store.peeks.Load() != 1 {
		t.Errorf("%+v", a)
	}
}
