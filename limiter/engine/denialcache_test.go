package engine_test

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"pgregory.net/rapid"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/denials"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/memstore"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/matching"
	"github.com/weir-dev/weir/limiter/store"
)

// handClock moves only by pass.
type handClock struct{ passed atomic.Int64 }

func (c *handClock) now() time.Time       { return epoch().Add(time.Duration(c.passed.Load())) }
func (c *handClock) pass(d time.Duration) { c.passed.Add(int64(d)) }

// cachingEngine is an Engine with a denial cache, on a clock that moves only by pass.
type cachingEngine struct {
	*engine.Engine

	chain    *store.Chain
	clock    *handClock
	store    *countingStore
	registry *prometheus.Registry
	// afterSpend is called between a decision of the store and its arrival.
	afterSpend func()
}

func newCachingEngine(t *testing.T, list ...rules.Rule) *cachingEngine {
	t.Helper()
	o := &cachingEngine{clock: &handClock{}, registry: prometheus.NewPedanticRegistry(), afterSpend: func() {}}
	o.store = &countingStore{Store: memstore.New(o.clock.now)}
	o.store.afterSpend = func() { o.afterSpend() }
	o.Engine, o.chain = newLayered(o.store, engine.SourceMemory, o.registry, store.Layers{Denials: denials.NewCache(100, o.clock.now)},
		engine.WithClock(o.clock.now))
	o.Swap(index(t, list...))
	return o
}

// check decides c and reports whether the store was called.
func (o *cachingEngine) check(t *testing.T, c *engine.Check) (answer engine.Answer, called bool) {
	t.Helper()
	before := o.store.calls()
	answer, err := o.Check(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	called = o.store.calls() != before
	if called == (answer.Source == engine.SourceCache) {
		t.Errorf("source %s, store called: %v", answer.Source, called)
	}
	return answer, called
}

func (o *cachingEngine) wantCalled(t *testing.T, what string, c *engine.Check, want bool) engine.Answer {
	t.Helper()
	answer, called := o.check(t, c)
	if called != want {
		t.Errorf("%s: store called: %v, want %v", what, called, want)
	}
	return answer
}

func acme() map[string]string { return map[string]string{"tenant": "acme"} }

// fixed is a fixed window of 5 seconds, aligned with epoch.
func fixed(policy string, units int64) rules.Rule {
	r := rule(policy, units)
	r.Algorithm, r.WindowSeconds = limiter.FixedWindow, 5
	return r
}

func TestCheck_KnownDenialHoldsUntilTheExactInstant(t *testing.T) {
	o := newCachingEngine(t, fixed("shop/a", 1))
	o.wantCalled(t, "the first request", request(1, acme()), true)
	first := o.wantCalled(t, "the second request, which is denied", request(1, acme()), true)
	for _, step := range []struct{ wait, left time.Duration }{
		{0, 5 * time.Second},
		{time.Second, 4 * time.Second},
		{4*time.Second - time.Microsecond, time.Microsecond},
	} {
		o.clock.pass(step.wait)
		answer := o.wantCalled(t, "a known denial", request(1, acme()), false)
		want := first.Results[0]
		want.RetryAfter, want.ResetAfter, want.Source = step.left, step.left, engine.SourceCache
		want.Origin = limiter.OriginDenial
		want.At = want.At.Add(5*time.Second - step.left)
		if diff := cmp.Diff([]engine.Result{want}, answer.Results, cmp.Comparer(sameRule)); diff != "" || answer.Allowed || answer.Revision != first.Revision {
			t.Errorf("%v before it expires: allowed %v (-want +got):\n%s", step.left, answer.Allowed, diff)
		}
	}
	o.clock.pass(time.Microsecond)
	if answer := o.wantCalled(t, "when the denial expires", request(1, acme()), true); !answer.Allowed {
		t.Error("the request is denied when the denial expires")
	}
}

func sameRule(a, b *matching.Compiled) bool { return a == b }

func TestCheck_KnownDenialAppliesToRequestsThatWaitAsLong(t *testing.T) {
	peek := request(1, acme())
	peek.Peek = true
	tests := map[string]struct {
		policy rules.Rule
		first  int64 // cost of a request that is denied
		then   *engine.Check
		called bool
	}{
		"the same request again":                                              {rule("shop/a", 1), 1, request(1, acme()), false},
		"not another tenant":                                                  {rule("shop/a", 1), 1, request(1, map[string]string{"tenant": "globex"}), true},
		"not a higher cost, which waits longer":                               {rule("shop/a", 2), 1, request(2, acme()), true},
		"a higher cost in a fixed window, which waits as long":                {fixed("shop/a", 2), 1, request(2, acme()), false},
		"not after a denial of a higher cost":                                 {rule("shop/a", 5), 5, request(5, acme()), true},
		"after a denial of a higher cost in a fixed window with nothing left": {fixed("shop/a", 2), 2, request(1, acme()), false},
		"not after a denial of a cost above the limit":                        {fixed("shop/a", 2), 3, request(3, acme()), true},
		"not a peek":                    {rule("shop/a", 1), 1, peek, true},
		"not a denial of a shadow rule": {shadow(rule("shop/a", 1)), 1, request(1, acme()), true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			o := newCachingEngine(t, tt.policy)
			for range tt.policy.Units {
				o.check(t, request(1, acme()))
			}
			o.check(t, request(tt.first, acme()))
			o.wantCalled(t, name, tt.then, tt.called)
		})
	}
}

func TestCheck_PeekIsNotCached(t *testing.T) {
	o := newCachingEngine(t, rule("shop/a", 1))
	o.check(t, request(1, acme()))
	peek := request(1, acme())
	peek.Peek = true
	if answer := o.wantCalled(t, "a peek", peek, true); answer.Allowed {
		t.Fatal("the peek is allowed")
	}
	o.wantCalled(t, "a request after the peek", request(1, acme()), true)
}

func TestCheck_KnownDenialHasOnlyTheResultsThatAreKnown(t *testing.T) {
	o := newCachingEngine(t, fixed("shop/a-wide", 100), rule("shop/b-tight", 2), fixed("shop/c-tight", 2), shadow(rule("shop/d-trial", 1)))
	for range 3 {
		o.check(t, request(1, acme()))
	}
	answer := o.wantCalled(t, "the fourth request", request(1, acme()), false)
	if diff := cmp.Diff([]string{"shop/b-tight acme false 0", "shop/c-tight acme false 0"}, lines(answer)); diff != "" || answer.Allowed {
		t.Errorf("allowed %v (-want +got):\n%s", answer.Allowed, diff)
	}
	o.clock.pass(5 * time.Second) // the fixed window has ended, that of the log has not
	answer = o.wantCalled(t, "the fifth request", request(1, acme()), false)
	if diff := cmp.Diff([]string{"shop/b-tight acme false 0"}, lines(answer)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	peek := request(1, acme())
	peek.Peek = true
	answer, _ = o.check(t, peek)
	want := []string{"shop/b-tight acme false 0", "shop/a-wide acme true 100", "shop/c-tight acme true 2", "shop/d-trial acme false 0"}
	if diff := cmp.Diff(want, lines(answer)); diff != "" {
		t.Errorf("known denials were charged (-want +got):\n%s", diff)
	}
}

func TestForget_DropsKnownDenials(t *testing.T) {
	key := func(o *cachingEngine) string {
		matched := o.Index().Match(nil, &request(1, acme()).Request)
		return matched[0].Key("acme")
	}
	events := map[string]struct {
		event     func(o *cachingEngine)
		forgotten bool
	}{
		"no event":                  {func(*cachingEngine) {}, false},
		"Forget of its counter":     {func(o *cachingEngine) { o.chain.WasRefunded("another", key(o)) }, true},
		"Forget of another counter": {func(o *cachingEngine) { o.chain.WasRefunded("another") }, false},
		"ForgetAll":                 {func(o *cachingEngine) { o.chain.MayHaveChanged() }, true},
		"Swap of other rules":       {func(o *cachingEngine) { o.Swap(index(t, rule("shop/a", 1), fixed("shop/b", 5))) }, false},
		"Swap of the same rules":    {func(o *cachingEngine) { o.Swap(o.Index()) }, false},
		"an edit of its rule that is reverted": {func(o *cachingEngine) {
			o.Swap(index(t, rule("shop/a", 5)))
			o.clock.pass(time.Microsecond)
			o.Swap(index(t, rule("shop/a", 1)))
		}, true},
		"a removal of its rule that is reverted": {func(o *cachingEngine) {
			o.Swap(index(t, rule("shop/b", 5)))
			o.clock.pass(time.Microsecond)
			o.Swap(index(t, rule("shop/a", 1)))
		}, true},
	}
	for name, tt := range events {
		t.Run(name+" after it is cached", func(t *testing.T) {
			o := newCachingEngine(t, rule("shop/a", 1))
			o.check(t, request(1, acme()))
			o.check(t, request(1, acme()))
			o.clock.pass(time.Second)
			tt.event(o)
			o.clock.pass(time.Microsecond)
			o.wantCalled(t, "the next request", request(1, acme()), tt.forgotten)
			o.wantCalled(t, "the request after it", request(1, acme()), false)
		})
		t.Run(name+" while the answer is in flight", func(t *testing.T) {
			o := newCachingEngine(t, rule("shop/a", 1))
			o.check(t, request(1, acme()))
			o.afterSpend = func() {
				o.clock.pass(time.Millisecond)
				tt.event(o)
			}
			o.check(t, request(1, acme()))
			o.afterSpend = func() {}
			o.clock.pass(time.Millisecond)
			o.wantCalled(t, "the next request", request(1, acme()), tt.forgotten)
			o.wantCalled(t, "the request after it", request(1, acme()), false)
		})
	}
}

func TestSwap_AnEditOfTheLimitAppliesToKnownDenials(t *testing.T) {
	o := newCachingEngine(t, rule("shop/a", 1))
	o.check(t, request(1, acme()))
	o.wantCalled(t, "the second request", request(1, acme()), true)
	o.clock.pass(time.Second)
	o.Swap(index(t, rule("shop/a", 2)))
	if answer := o.wantCalled(t, "a request under the higher limit", request(1, acme()), true); !answer.Allowed {
		t.Error("the request is denied")
	}
}

func TestForgetAll_IsNotRevertedByASwap(t *testing.T) {
	o := newCachingEngine(t, rule("shop/a", 1))
	o.check(t, request(1, acme()))
	o.check(t, request(1, acme()))
	o.chain.MayHaveChanged()
	o.Swap(index(t, rule("shop/a", 1), rule("shop/b", 5)))
	o.wantCalled(t, "a request after both", request(1, acme()), true)
}

func TestCheckAll_AKnownDenialAnswersWithoutTheStore(t *testing.T) {
	globex := map[string]string{"tenant": "globex"}
	for name, tt := range map[string]struct {
		checks []engine.Check
		called bool
		want   [][]string
	}{
		"one of two requests": {
			checks: []engine.Check{*request(1, globex), *request(1, acme())},
			called: false,
			want:   [][]string{{}, {"shop/a acme false 0"}},
		},
		"not two requests on one counter, which wait longer": {
			checks: []engine.Check{*request(1, acme()), *request(1, acme())},
			called: true,
			want:   [][]string{{"shop/a acme false 0"}, {"shop/a acme false 0"}},
		},
		"not requests without one": {
			checks: []engine.Check{*request(1, globex), *request(1, map[string]string{"tenant": "initech"})},
			called: true,
			want:   [][]string{{"shop/a globex true 0"}, {"shop/a initech true 0"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := newCachingEngine(t, rule("shop/a", 1))
			o.check(t, request(1, acme()))
			o.check(t, request(1, acme()))
			before := o.store.calls()
			answers, err := o.CheckAll(t.Context(), tt.checks)
			if err != nil {
				t.Fatal(err)
			}
			if called := o.store.calls() != before; called != tt.called {
				t.Errorf("store called: %v, want %v", called, tt.called)
			}
			for i, want := range tt.want {
				if got := lines(answers[i]); strings.Join(got, "; ") != strings.Join(want, "; ") {
					t.Errorf("answer %d: %q, want %q", i, got, want)
				}
			}
			if answer := o.wantCalled(t, "the other tenant, who was not charged", request(1, globex), true); answer.Allowed == (name == "not requests without one") {
				t.Errorf("allowed: %v", answer.Allowed)
			}
		})
	}
}

func TestCheckAll_APeekIsNotAnsweredByAKnownDenial(t *testing.T) {
	o := newCachingEngine(t, rule("shop/a", 1))
	o.check(t, request(1, acme()))
	o.check(t, request(1, acme()))
	peeks := []engine.Check{*request(1, acme()), *request(1, map[string]string{"tenant": "globex"})}
	peeks[0].Peek, peeks[1].Peek = true, true
	before := o.store.calls()
	if _, err := o.CheckAll(t.Context(), peeks); err != nil || o.store.calls() != before+1 {
		t.Errorf("%d calls, %v", o.store.calls()-before, err)
	}
}

func TestCheck_ALeakyBucketWithoutDelayHasKnownDenials(t *testing.T) {
	leaky := rule("shop/a", 1)
	leaky.Algorithm, leaky.WindowSeconds = limiter.LeakyBucket, 2
	o := newCachingEngine(t, leaky)
	now := request(1, acme())
	now.NoDelay = true
	if answer := o.wantCalled(t, "the first request", now, true); !answer.Allowed {
		t.Fatal("the first request is denied")
	}
	first := o.wantCalled(t, "the second request, which would have to wait", now, true)
	again := o.wantCalled(t, "a known denial", now, false)
	if first.Allowed || again.Allowed || again.Results[0].RetryAfter != first.Results[0].RetryAfter || again.Results[0].Remaining != 0 {
		t.Errorf("%+v, from the cache %+v", first.Results, again.Results)
	}
}

// Requests that can wait make the wait of others longer, so only the store knows it.
func TestCheck_ALeakyBucketWithAQueueHasNoKnownDenials(t *testing.T) {
	leaky := rule("shop/a", 1)
	leaky.Algorithm, leaky.WindowSeconds, leaky.Burst = limiter.LeakyBucket, 2, 5
	o := newCachingEngine(t, leaky)
	now := request(1, acme())
	now.NoDelay = true
	o.check(t, now)
	first := o.wantCalled(t, "the second request, which would have to wait", now, true)
	if answer := o.wantCalled(t, "a request that can wait", request(1, acme()), true); !answer.Allowed {
		t.Error("it is denied")
	}
	if again := o.wantCalled(t, "the third request", now, true); again.Results[0].RetryAfter <= first.Results[0].RetryAfter {
		t.Errorf("retry after %v, before the request that waits %v", again.Results[0].RetryAfter, first.Results[0].RetryAfter)
	}
}

// Two policies deny. A client that comes back after the retry time of the answer is admitted, and not before: whichever of the denials is known,
// and whatever the other one is.
func TestCheck_RetryAfterIsThatOfAllPolicies(t *testing.T) {
	algorithms := limiter.Algorithms()
	rapid.Check(t, func(rt *rapid.T) {
		var all []rules.Rule
		for _, name := range []string{"shop/a", "shop/b", "shop/c"} {
			r := rule(name, rapid.Int64Range(1, 4).Draw(rt, "units"))
			r.Algorithm = rapid.SampledFrom(algorithms).Draw(rt, "algorithm")
			r.WindowSeconds = rapid.Int64Range(1, 90).Draw(rt, "window")
			all = append(all, r)
		}
		o := newCachingEngine(t, all...)
		for range 30 {
			c := request(1, acme())
			c.NoDelay = true
			if rapid.Bool().Draw(rt, "another replica spends") {
				m := rapid.SampledFrom(o.Index().Match(nil, &c.Request)).Draw(rt, "policy")
				limit := m.Terms(&c.Request, "acme").Limit.NoDelay()
				if _, err := o.store.Store.Spend(t.Context(), []limiter.Charge{{Key: m.Key("acme"), Limit: limit, Cost: 1}}); err != nil {
					rt.Fatal(err)
				}
			}
			o.clock.pass(time.Duration(rapid.Int64Range(0, 2_000_000).Draw(rt, "wait")) * time.Microsecond)
			answer, _ := o.check(t, c)
			if answer.Allowed || rapid.Bool().Draw(rt, "impatient") {
				continue
			}
			wait := answer.Strictest().RetryAfter
			peek := *c
			peek.Peek = true
			o.clock.pass(wait - time.Microsecond)
			if early, _ := o.check(t, &peek); early.Allowed {
				rt.Fatalf("%+v: admitted before %v", answer.Results, wait)
			}
			o.clock.pass(time.Microsecond)
			if late, _ := o.check(t, &peek); !late.Allowed {
				rt.Fatalf("%s %+v: denied after %v: %+v", answer.Source, answer.Results, wait, late.Results)
			}
		}
	})
}

func TestCheck_WithoutADenialCacheAlwaysCallsTheStore(t *testing.T) {
	counters := &countingStore{Store: memstore.New(epoch)}
	e, chain := newLayered(counters, engine.SourceMemory, prometheus.NewPedanticRegistry(), store.Layers{})
	e.Swap(index(t, rule("shop/a", 1)))
	for range 3 {
		if _, err := e.Check(t.Context(), request(1, acme())); err != nil {
			t.Fatal(err)
		}
		chain.MayHaveChanged()
		chain.WasRefunded("weir:a")
		chain.WasReset("weir:a")
	}
	if counters.calls() != 3 {
		t.Errorf("the store was called %d times, want 3", counters.calls())
	}
}

func TestMetrics_CountKnownDenials(t *testing.T) {
	o := newCachingEngine(t, rule("shop/a", 1), rule("shop/b", 5), shadow(rule("shop/c", 1)))
	for range 5 {
		o.check(t, request(1, nil))
	}
	want := `
# HELP weir_decisions_total Decisions by policy, without peeks. The result is allowed, denied, uncharged (another policy denied the request) or unlimited (an unlimited tier applies). The tier is empty if the limit of the policy applies, and _other for the tiers of policies beyond the first 512 tiers of a namespace, by age.
# TYPE weir_decisions_total counter
weir_decisions_total{axis="Tenant",policy="shop/a",result="allowed",source="memory",tier=""} 1
weir_decisions_total{axis="Tenant",policy="shop/a",result="denied",source="cache",tier=""} 3
weir_decisions_total{axis="Tenant",policy="shop/a",result="denied",source="memory",tier=""} 1
weir_decisions_total{axis="Tenant",policy="shop/b",result="allowed",source="memory",tier=""} 1
weir_decisions_total{axis="Tenant",policy="shop/b",result="uncharged",source="memory",tier=""} 1
weir_decisions_total{axis="Tenant",policy="shop/c",result="allowed",source="memory",tier=""} 1
weir_decisions_total{axis="Tenant",policy="shop/c",result="denied",source="memory",tier=""} 1
# HELP weir_known_denials Cached denials, which are repeated without a call to the store. Expired denials count until they are evicted.
# TYPE weir_known_denials gauge
weir_known_denials 1
# HELP weir_missing_identifier_total Requests that matched a policy without an identifier. The reason is missing (counted under the identifier "-") or unreadable (counted under "?"), for example a text that is no address.
# TYPE weir_missing_identifier_total counter
weir_missing_identifier_total{axis="Tenant",policy="shop/a",reason="missing"} 5
weir_missing_identifier_total{axis="Tenant",policy="shop/b",reason="missing"} 5
weir_missing_identifier_total{axis="Tenant",policy="shop/c",reason="missing"} 5
`
	names := []string{"weir_decisions_total", "weir_missing_identifier_total", "weir_known_denials"}
	if err := testutil.GatherAndCompare(o.registry, strings.NewReader(want), names...); err != nil {
		t.Error(err)
	}
	if n := observations(t, o.registry, "weir_store_duration_seconds"); n != 2 {
		t.Errorf("%d calls of the store are counted, want 2", n)
	}
	o.Swap(index(t, rule("shop/b", 5)))
	if n, err := testutil.GatherAndCount(o.registry, "weir_decisions_total"); err != nil || n != 2 {
		t.Errorf("after a policy was removed: %d series (%v), want 2", n, err)
	}
}

// observations is the number of observations of a histogram, over all its series.
func observations(t *testing.T, registry *prometheus.Registry, name string) (n uint64) {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == name {
			for _, m := range family.GetMetric() {
				n += m.GetHistogram().GetSampleCount()
			}
		}
	}
	return n
}

// Goroutines send requests over the limit while another calls Swap, Forget and ForgetAll. No request is allowed beyond the limit, and no
// known denial survives a reset.
func TestCheck_ConcurrentKnownDenialsNeverExceedTheLimit(t *testing.T) {
	const callers, each, limit = 4, 3000, 7
	o := newCachingEngine(t, rule("shop/a", limit))
	one, another := o.Index(), index(t, rule("shop/a", limit), rule("shop/b", 1_000_000))
	var admitted atomic.Int64
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for range each {
				answer, err := o.Check(t.Context(), request(1, acme()))
				if err != nil {
					t.Error(err)
					return
				}
				if answer.Allowed {
					admitted.Add(1)
				}
			}
		})
	}
	wg.Go(func() {
		for i := range 500 {
			switch i % 3 {
			case 0:
				o.Swap([]*matching.Index{one, another}[i%2])
			case 1:
				o.chain.WasRefunded("weir:throttle:tenant:{acme}:shop/a:x")
			case 2:
				o.chain.MayHaveChanged()
			}
		}
	})
	wg.Wait()
	if admitted.Load() != limit {
		t.Errorf("%d requests were allowed, want %d", admitted.Load(), limit)
	}
	key := one.Match(nil, &request(1, acme()).Request)[0].Key("acme")
	if err := o.store.Reset(t.Context(), []string{key}, ""); err != nil {
		t.Fatal(err)
	}
	o.clock.pass(time.Microsecond)
	o.chain.WasRefunded(key)
	if answer, _ := o.check(t, request(1, acme())); !answer.Allowed {
		t.Error("the first request after a reset is denied")
	}
}
