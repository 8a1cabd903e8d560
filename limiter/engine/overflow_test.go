package engine_test

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/bound"
	"github.com/weir-dev/weir/limiter/denials"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/memstore"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/store"
)

// bounded is an engine with a bound on identifiers.
type bounded struct {
	*engine.Engine

	bound   *bound.Counters
	store   *memstore.Store
	metrics *prometheus.Registry
	now     time.Time
}

func newBounded(t *testing.T, most bound.Identifiers, list ...rules.Rule) *bounded {
	t.Helper()
	b := &bounded{metrics: prometheus.NewPedanticRegistry(), now: epoch()}
	clock := func() time.Time { return b.now }
	b.store = memstore.New(clock)
	b.bound = bound.New(most, clock)
	b.Engine, _ = newLayered(b.store, engine.SourceMemory, b.metrics, store.Layers{Denials: denials.NewCache(1000, clock), Bound: b.bound},
		engine.WithClock(clock))
	b.Swap(index(t, list...))
	return b
}

// ask returns the decision about a request of a tenant.
func (b *bounded) ask(t *testing.T, tenant string) engine.Result {
	t.Helper()
	answer, err := b.Check(context.Background(), request(1, map[string]string{"tenant": tenant}))
	if err != nil {
		t.Fatal(err)
	}
	return *answer.Strictest()
}

func (b *bounded) flood(t *testing.T, from, to int) (denied int) {
	t.Helper()
	for i := from; i < to; i++ {
		if !b.ask(t, fmt.Sprintf("invented-%d", i)).Allowed {
			denied++
		}
	}
	return denied
}

func tenantRule(algorithm limiter.Algorithm) rules.Rule {
	r := rule("shop/tenants", 10)
	r.Algorithm = algorithm
	return r
}

func TestBoundIdentifiers_BoundsTheCountersOfAFlood(t *testing.T) {
	for _, algorithm := range limiter.Algorithms() {
		b := newBounded(t, bound.Identifiers{Max: 1000}, tenantRule(algorithm))
		denied := b.flood(t, 0, 20_000)
		// The estimate has an error of 3 %, and lags behind by 64 requests.
		if n := b.store.Len(); n < 850 || n > 1250 {
			t.Errorf("%s: %d counters of 20 000 identifiers, want about 1000", algorithm, n)
		}
		if denied < 18_000 {
			t.Errorf("%s: %d requests were denied, want all but about 1000: the rest share a limit of 10", algorithm, denied)
		}
		if n := testutil.CollectAndCount(b.metrics, "weir_identifier_overflow_total"); n != 1 {
			t.Errorf("%s: %d series count the overflow, want 1", algorithm, n)
		}
	}
}

func TestBoundIdentifiers_IdentifiersWithACounterKeepIt(t *testing.T) {
	b := newBounded(t, bound.Identifiers{Max: 500}, tenantRule(limiter.FixedWindow))
	for i := range 100 {
		b.ask(t, fmt.Sprintf("customer-%d", i))
	}
	b.flood(t, 0, 10_000)
	for i := range 100 {
		if d := b.ask(t, fmt.Sprintf("customer-%d", i)); !d.Allowed || d.Remaining != 8 {
			t.Fatalf("customer %d: %+v, want 8 of 10 units", i, d.Decision)
		}
	}
	d := b.ask(t, "late-customer")
	if d.Allowed || d.Identifier != "late-customer" || d.Key != "weir:throttle:tenant:{%overflow}:shop/tenants:"+lastPart(d.Key) {
		t.Errorf("a new identifier: %+v, want the shared counter", d)
	}
}

func lastPart(key string) string { return key[len(key)-8:] }

func TestBoundIdentifiers_DenyDeniesNewIdentifiers(t *testing.T) {
	b := newBounded(t, bound.Identifiers{Max: 500, Deny: true}, tenantRule(limiter.FixedWindow))
	b.ask(t, "customer")
	b.flood(t, 0, 10_000)
	counters := b.store.Len()
	if d := b.ask(t, "late-customer"); d.Allowed || d.RetryAfter != limiter.Never {
		t.Errorf("a new identifier: %+v", d.Decision)
	}
	if d := b.ask(t, "customer"); !d.Allowed {
		t.Errorf("a customer with a counter: %+v", d.Decision)
	}
	if n := b.store.Len(); n != counters {
		t.Errorf("a denied identifier has a counter")
	}
}

func TestBoundIdentifiers_EndsWithTheFlood(t *testing.T) {
	b := newBounded(t, bound.Identifiers{Max: 500}, tenantRule(limiter.FixedWindow))
	b.flood(t, 0, 5000)
	b.now = b.now.Add(time.Minute) // the flood was in this window or the one before
	if d := b.ask(t, "late-customer"); d.Key != "weir:throttle:tenant:{%overflow}:shop/tenants:"+lastPart(d.Key) {
		t.Errorf("one window later: %s, want the shared counter", d.Key)
	}
	b.now = b.now.Add(time.Minute)
	if d := b.ask(t, "customer"); !d.Allowed || d.Remaining != 9 || d.Key != "weir:throttle:tenant:{customer}:shop/tenants:"+lastPart(d.Key) {
		t.Errorf("two windows later: %+v, want a counter of its own", d)
	}
}

// An edit of another policy must not open the bound again.
func TestBoundIdentifiers_OutlivesAChangeOfTheRules(t *testing.T) {
	b := newBounded(t, bound.Identifiers{Max: 500}, tenantRule(limiter.FixedWindow))
	b.flood(t, 0, 5000)
	counters := b.store.Len()
	b.Swap(index(t, tenantRule(limiter.FixedWindow), rule("other/policy", 1)))
	b.flood(t, 5000, 6000)
	if n := b.store.Len(); n > counters {
		t.Errorf("%d counters, want the %d of before", n, counters)
	}
}

// Each policy has its own bound.
func TestBoundIdentifiers_AFloodOfOnePolicyLeavesOthersAlone(t *testing.T) {
	second := rule("shop/users", 10)
	second.Identifier.Name = "user"
	b := newBounded(t, bound.Identifiers{Max: 500}, tenantRule(limiter.FixedWindow), second)
	b.flood(t, 0, 5000) // counts all under the missing user
	d, err := b.Check(context.Background(), request(1, map[string]string{"user": "new", "tenant": "invented-0"}))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range d.Results {
		if r.Rule.Policy == "shop/users" && (!r.Allowed || r.Remaining < 9) {
			t.Errorf("%+v, want a counter of its own", r.Decision)
		}
	}
}

// A peek decides as the request would be, and changes nothing.
func TestBoundIdentifiers_AppliesToBatchesAndPeeks(t *testing.T) {
	b := newBounded(t, bound.Identifiers{Max: 500}, tenantRule(limiter.FixedWindow))
	b.flood(t, 0, 5000)
	counters := b.store.Len()
	for _, peek := range []bool{true, false} {
		checks := []engine.Check{*request(1, map[string]string{"tenant": "new-1"}), *request(1, map[string]string{"tenant": "new-2"})}
		checks[0].Peek, checks[1].Peek = peek, peek
		answers, err := b.CheckAll(context.Background(), checks)
		if err != nil {
			t.Fatal(err)
		}
		for i, a := range answers {
			if a.Allowed {
				t.Errorf("peek %t: request %d is allowed, want a denial by the shared counter", peek, i)
			}
			if !peek && a.Source != engine.SourceCache {
				t.Errorf("request %d is decided by %s, want the known denial of the shared counter", i, a.Source)
			}
		}
	}
	if n := b.store.Len(); n != counters {
		t.Errorf("%d counters, want %d", n, counters)
	}
}

// counter returns the counter under which the policy shop/tenants counts a request.
func (b *bounded) counter(t *testing.T, check *engine.Check) string {
	t.Helper()
	answer, err := b.Check(context.Background(), check)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range answer.Results {
		if r.Rule.Policy == "shop/tenants" {
			return strings.Split(r.Key, ":")[3]
		}
	}
	t.Fatal("the policy shop/tenants decided nothing")
	return ""
}

const sharedCounter = "{%overflow}"

// Requests that another policy denies create no counters. So a limit on the address of a client ends its flood of identifiers.
func TestBoundIdentifiers_IgnoresRequestsThatAreDenied(t *testing.T) {
	address := rule("shop/addresses", 1)
	address.Identifier.Name = "address"
	b := newBounded(t, bound.Identifiers{Max: 1000}, address, tenantRule(limiter.FixedWindow))
	for i := range 3000 {
		headers := map[string]string{"address": "flood", "tenant": fmt.Sprintf("invented-%d", i)}
		if _, err := b.Check(context.Background(), request(1, headers)); err != nil {
			t.Fatal(err)
		}
	}
	if got := b.counter(t, request(1, map[string]string{"address": "other", "tenant": "customer"})); got != "{customer}" {
		t.Errorf("after a flood with %d counters, a new client is counted under %s, want its own counter", b.store.Len(), got)
	}
}

func TestBoundIdentifiers_IgnoresRequestsThatChargeNothing(t *testing.T) {
	ctx := context.Background()
	for name, send := range map[string]func(b *bounded, c *engine.Check) error{
		"peek":   func(b *bounded, c *engine.Check) error { c.Peek = true; _, err := b.Check(ctx, c); return err },
		"cost 0": func(b *bounded, c *engine.Check) error { c.Cost = 0; _, err := b.Check(ctx, c); return err },
		"refund": func(b *bounded, c *engine.Check) error { return b.Refund(ctx, []engine.Check{*c}) },
		"shadow denial": func(b *bounded, c *engine.Check) error {
			c.Cost = 11
			_, err := b.Check(ctx, c)
			return err
		},
	} {
		b := newBounded(t, bound.Identifiers{Max: 1000}, shadow(tenantRule(limiter.FixedWindow)))
		for i := range 3000 {
			if err := send(b, request(1, map[string]string{"tenant": fmt.Sprintf("invented-%d", i)})); err != nil {
				t.Fatal(err)
			}
		}
		if got := b.counter(t, request(1, map[string]string{"tenant": "customer"})); got != "{customer}" {
			t.Errorf("%s: a new client is counted under %s, want its own counter", name, got)
		}
	}
}

// Identifiers on the shared counter have no counter of their own. So new clients wait for two windows, also if the flood continues.
func TestBoundIdentifiers_IgnoresIdentifiersOnTheSharedCounter(t *testing.T) {
	b := newBounded(t, bound.Identifiers{Max: 500}, tenantRule(limiter.FixedWindow))
	b.flood(t, 0, 5000)
	b.now = b.now.Add(time.Minute)
	b.flood(t, 5000, 10_000)
	b.now = b.now.Add(time.Minute)
	if got := b.counter(t, request(1, map[string]string{"tenant": "customer"})); got != "{customer}" {
		t.Errorf("two windows after the counters of the flood were made, a new client is counted under %s, want its own counter", got)
	}
}

// Local mode reports to the store what it has counted. It counts nothing for policies that allow.
func TestBoundIdentifiers_AddsWhatLocalModeCounts(t *testing.T) {
	for onFailure, want := range map[rules.StoreFailure]string{rules.LocalOnFailure: sharedCounter, rules.AllowOnFailure: "{customer}"} {
		tenants := tenantRule(limiter.FixedWindow)
		tenants.OnStoreFailure = onFailure
		counters := &localStore{Store: memstore.New(epoch), unavailable: true}
		b := &bounded{}
		b.Engine, _ = newLayered(counters, engine.SourceMemory, prometheus.NewPedanticRegistry(),
			store.Layers{Bound: bound.New(bound.Identifiers{Max: 500}, epoch)})
		b.Swap(index(t, tenants))
		b.flood(t, 0, 5000)
		counters.unavailable = false
		if got := b.counter(t, request(1, map[string]string{"tenant": "customer"})); got != want {
			t.Errorf("%v: a new client is counted under %s, want %s", onFailure, got, want)
		}
	}
}

// localStore decides as local mode does while it is unavailable.
type localStore struct {
	limiter.Store

	unavailable bool
}

func (s *localStore) Spend(ctx context.Context, charges []limiter.Charge) ([]limiter.Decision, error) {
	decisions, err := s.Store.Spend(ctx, charges)
	for i := range decisions {
		if s.unavailable {
			decisions[i].Origin = limiter.OriginLocal
		}
	}
	return decisions, err
}

// A counter is live for longer than a minute under each of these limits. So a flood counts for longer than two minutes.
func TestBoundIdentifiers_CountsCountersForTheirWholeLife(t *testing.T) {
	bucket := tenantRule(limiter.TokenBucket)
	bucket.Burst = 100
	tier := tenantRule(limiter.LeakyBucket)
	tier.Tiers = []rules.Tier{
		{Name: "free", When: rules.When{Identifiers: []string{"internal"}}, Unlimited: true},
		{Name: "all", When: rules.When{CIDRs: []string{"10.0.0.0/8"}}, Units: 10, Burst: 99},
	}
	hour := tenantRule(limiter.FixedWindow)
	hour.WindowSeconds = 3600
	minute := tenantRule(limiter.FixedWindow)
	for name, test := range map[string]struct {
		first, rule rules.Rule
		cost        int64
		override    *engine.Override
	}{
		"edited window": {minute, hour, 1, nil},
		"burst":         {bucket, bucket, 100, nil},
		"edited burst":  {tenantRule(limiter.TokenBucket), bucket, 100, nil},
		"tier":          {tier, tier, 100, nil},
		"override":      {minute, minute, 1, &engine.Override{Units: 10, Window: time.Hour}},
	} {
		b := newBounded(t, bound.Identifiers{Max: 500}, test.first)
		ask := func(tenant string) string {
			c := request(test.cost, map[string]string{"tenant": tenant})
			c.Override, c.Request.ClientIP = test.override, netip.MustParseAddr("10.0.0.1")
			return b.counter(t, c)
		}
		ask("customer-of-the-first-rules")
		b.Swap(index(t, test.rule))
		for i := range 2000 {
			ask(fmt.Sprintf("invented-%d", i))
		}
		b.now = b.now.Add(5 * time.Minute)
		b.Swap(index(t, test.rule, rule("other/policy", 1)))
		if got := ask("late-customer"); got != sharedCounter {
			t.Errorf("%s: with %d live counters, a new client is counted under %s, want the shared counter", name, b.store.Len(), got)
		}
	}
}

// A flood under the limit of one request does not take the counters of the policy's own limit, and the reverse.
func TestBoundIdentifiers_BoundsOverridesApart(t *testing.T) {
	b := newBounded(t, bound.Identifiers{Max: 500}, tenantRule(limiter.FixedWindow))
	for i := range 2000 {
		c := request(1, map[string]string{"tenant": fmt.Sprintf("invented-%d", i)})
		c.Override = &engine.Override{Units: 10, Window: limiter.MaxWindow}
		b.counter(t, c)
	}
	if got := b.counter(t, request(1, map[string]string{"tenant": "customer"})); got != "{customer}" {
		t.Errorf("a new client is counted under %s, want its own counter", got)
	}
	invalid := request(1, map[string]string{"tenant": "customer"})
	invalid.Override = &engine.Override{Units: 0, Window: limiter.MaxWindow}
	if got := b.counter(t, invalid); got != "{customer}" {
		t.Errorf("with an invalid override, a client is counted under %s, want its own counter", got)
	}
}

func TestCheckAll_PeeksOnceOverTheBound(t *testing.T) {
	counters := &countingStore{Store: memstore.New(epoch)}
	b := &bounded{}
	b.Engine, _ = newLayered(counters, engine.SourceMemory, prometheus.NewPedanticRegistry(),
		store.Layers{Bound: bound.New(bound.Identifiers{Max: 500}, epoch)})
	b.Swap(index(t, tenantRule(limiter.FixedWindow)))
	b.ask(t, "customer")
	b.flood(t, 0, 5000)
	var checks []engine.Check
	for _, tenant := range []string{"new-1", "customer", "new-2", "new-1"} {
		checks = append(checks, *request(1, map[string]string{"tenant": tenant}))
	}
	counters.peeks.Store(0)
	answers, err := b.CheckAll(context.Background(), checks)
	if err != nil {
		t.Fatal(err)
	}
	if n := counters.peeks.Load(); n != 1 {
		t.Errorf("%d peeks for %d requests, want 1", n, len(checks))
	}
	for i, want := range []string{sharedCounter, "{customer}", sharedCounter, sharedCounter} {
		if got := strings.Split(answers[i].Results[0].Key, ":")[3]; got != want {
			t.Errorf("request %d is counted under %s, want %s", i, got, want)
		}
	}
}

// BenchmarkCheckBoundedIdentifiers is BenchmarkCheck with a bound on identifiers, which is not reached.
func BenchmarkCheckBoundedIdentifiers(b *testing.B) {
	e, _ := newLayered(memstore.New(epoch), engine.SourceMemory, prometheus.NewPedanticRegistry(),
		store.Layers{Bound: bound.New(bound.Identifiers{Max: 1_000_000}, epoch)})
	e.Swap(index(b, rule("shop/a", 1_000_000), rule("shop/b", 1_000_000)))
	check := request(1, map[string]string{"tenant": "acme"})
	b.ReportAllocs()
	for b.Loop() {
		if _, err := e.Check(b.Context(), check); err != nil {
			b.Fatal(err)
		}
	}
}
