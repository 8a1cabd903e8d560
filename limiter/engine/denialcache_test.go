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

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/memstore"
	"github.com/weir-dev/weir/limiter/rules"
)

// handClock stands still until it is moved.
type handClock struct{ passed atomic.Int64 }

func (c *handClock) now() time.Time       { return standing().Add(time.Duration(c.passed.Load())) }
func (c *handClock) pass(d time.Duration) { c.passed.Add(int64(d)) }

// offence is an Engine that remembers denials, on a clock that is moved by hand.
type offence struct {
	*engine.Engine

	clock    *handClock
	store    *countingStore
	registry *prometheus.Registry
	// meanwhile happens between the store's decision and its arrival.
	meanwhile func()
}

func newOffence(t *testing.T, list ...rules.Rule) *offence {
	t.Helper()
	o := &offence{clock: &handClock{}, registry: prometheus.NewPedanticRegistry(), meanwhile: func() {}}
	o.store = &countingStore{Store: memstore.New(o.clock.now)}
	o.store.afterSpend = func() { o.meanwhile() }
	o.Engine = engine.New(o.store, engine.SourceMemory, engine.NewMetrics(o.registry), engine.RememberDenials(100, o.clock.now))
	o.Swap(index(t, list...))
	return o
}

// check asks and says whether the store was.
func (o *offence) check(t *testing.T, c *engine.Check) (answer engine.Answer, asked bool) {
	t.Helper()
	before := o.store.asks()
	answer, err := o.Check(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	asked = o.store.asks() != before
	if asked == (answer.Source == engine.SourceCache) {
		t.Errorf("source %s, the store was asked: %v", answer.Source, asked)
	}
	return answer, asked
}

func (o *offence) wantAsked(t *testing.T, what string, c *engine.Check, want bool) engine.Answer {
	t.Helper()
	answer, asked := o.check(t, c)
	if asked != want {
		t.Errorf("%s: the store was asked: %v, want %v", what, asked, want)
	}
	return answer
}

func acme() map[string]string { return map[string]string{"tenant": "acme"} }

// fixed is a fixed window of 5 seconds, aligned with standing.
func fixed(policy string, units int64) rules.Rule {
	r := rule(policy, units)
	r.Algorithm, r.WindowSeconds = limiter.FixedWindow, 5
	return r
}

func TestAKnownOffenderIsDeniedUntilTheExactMoment(t *testing.T) {
	o := newOffence(t, fixed("shop/a", 1))
	o.wantAsked(t, "the first", ask(1, acme()), true)
	first := o.wantAsked(t, "the second, which is denied", ask(1, acme()), true)
	for _, step := range []struct{ wait, left time.Duration }{
		{0, 5 * time.Second},
		{time.Second, 4 * time.Second},
		{4*time.Second - time.Microsecond, time.Microsecond},
	} {
		o.clock.pass(step.wait)
		answer := o.wantAsked(t, "a known offender", ask(1, acme()), false)
		want := first.Results[0]
		want.RetryAfter, want.ResetAfter, want.Source = step.left, step.left, engine.SourceCache
		if diff := cmp.Diff([]engine.Result{want}, answer.Results, cmp.Comparer(sameRule)); diff != "" || answer.Allowed || answer.Revision != first.Revision {
			t.Errorf("%v before its end: allowed %v (-want +got):\n%s", step.left, answer.Allowed, diff)
		}
	}
	o.clock.pass(time.Microsecond)
	if answer := o.wantAsked(t, "at the moment told", ask(1, acme()), true); !answer.Allowed {
		t.Error("at the moment told the request is denied")
	}
}

func sameRule(a, b *rules.Compiled) bool { return a == b }

func TestWhichRequestsAreAnsweredFromMemory(t *testing.T) {
	peek := ask(1, acme())
	peek.Peek = true
	tests := map[string]struct {
		policy rules.Rule
		first  int64 // cost of a request that is denied
		then   *engine.Check
		asked  bool
	}{
		"the same again":                           {rule("shop/a", 1), 1, ask(1, acme()), false},
		"not another tenant":                       {rule("shop/a", 1), 1, ask(1, map[string]string{"tenant": "globex"}), true},
		"not a higher cost, which waits longer":    {rule("shop/a", 2), 1, ask(2, acme()), true},
		"but in a fixed window, where it does not": {fixed("shop/a", 2), 1, ask(2, acme()), false},
		"not after a denial of a higher cost":      {rule("shop/a", 5), 5, ask(5, acme()), true},
		"but in a fixed window with nothing left":  {fixed("shop/a", 2), 2, ask(1, acme()), false},
		"not after a denial for ever":              {fixed("shop/a", 2), 3, ask(3, acme()), true},
		"not a peek":                               {rule("shop/a", 1), 1, peek, true},
		"not what a shadow denies":                 {shadow(rule("shop/a", 1)), 1, ask(1, acme()), true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			o := newOffence(t, tt.policy)
			for range tt.policy.Units {
				o.check(t, ask(1, acme()))
			}
			o.check(t, ask(tt.first, acme()))
			o.wantAsked(t, name, tt.then, tt.asked)
		})
	}
}

func TestAPeekTeachesNothing(t *testing.T) {
	o := newOffence(t, rule("shop/a", 1))
	o.check(t, ask(1, acme()))
	peek := ask(1, acme())
	peek.Peek = true
	if answer := o.wantAsked(t, "a peek", peek, true); answer.Allowed {
		t.Fatal("the peek is allowed")
	}
	o.wantAsked(t, "a request after it", ask(1, acme()), true)
}

func TestOfSeveralPoliciesOnlyThoseThatAreKnownToDenyAreTold(t *testing.T) {
	o := newOffence(t, rule("shop/a-wide", 100), rule("shop/b-tight", 2), fixed("shop/c-tight", 2), shadow(rule("shop/d-trial", 1)))
	for range 3 {
		o.check(t, ask(1, acme()))
	}
	answer := o.wantAsked(t, "the fourth", ask(1, acme()), false)
	if diff := cmp.Diff([]string{"shop/b-tight acme false 0", "shop/c-tight acme false 0"}, lines(answer)); diff != "" || answer.Allowed {
		t.Errorf("allowed %v (-want +got):\n%s", answer.Allowed, diff)
	}
	o.clock.pass(5 * time.Second) // the fixed window is over, the log is not
	answer = o.wantAsked(t, "the fifth", ask(1, acme()), false)
	if diff := cmp.Diff([]string{"shop/b-tight acme false 0"}, lines(answer)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	plain := ask(1, acme())
	plain.Peek = true
	answer, _ = o.check(t, plain)
	want := []string{"shop/b-tight acme false 0", "shop/a-wide acme true 98", "shop/c-tight acme true 2", "shop/d-trial acme false 0"}
	if diff := cmp.Diff(want, lines(answer)); diff != "" {
		t.Errorf("known denials were charged somewhere (-want +got):\n%s", diff)
	}
}

func TestWhatMakesADenialForgotten(t *testing.T) {
	key := func(o *offence) string {
		matched := o.Index().Match(nil, &ask(1, acme()).Request)
		return matched[0].Key("acme")
	}
	events := map[string]struct {
		event     func(o *offence)
		forgotten bool
	}{
		"nothing":                  {func(*offence) {}, false},
		"to forget its counter":    {func(o *offence) { o.Forget("another", key(o)) }, true},
		"to forget another":        {func(o *offence) { o.Forget("another") }, false},
		"to forget all":            {func(o *offence) { o.ForgetAll() }, true},
		"other rules":              {func(o *offence) { o.Swap(index(t, rule("shop/a", 1), rule("shop/b", 5))) }, true},
		"the same rules once more": {func(o *offence) { o.Swap(o.Index()) }, true},
	}
	for name, tt := range events {
		t.Run(name+" after it is known", func(t *testing.T) {
			o := newOffence(t, rule("shop/a", 1))
			o.check(t, ask(1, acme()))
			o.check(t, ask(1, acme()))
			o.clock.pass(time.Second)
			tt.event(o)
			o.clock.pass(time.Microsecond)
			o.wantAsked(t, "then", ask(1, acme()), tt.forgotten)
			o.wantAsked(t, "and then again", ask(1, acme()), false)
		})
		t.Run(name+" while the answer is on its way", func(t *testing.T) {
			o := newOffence(t, rule("shop/a", 1))
			o.check(t, ask(1, acme()))
			o.meanwhile = func() {
				o.clock.pass(time.Millisecond)
				tt.event(o)
			}
			o.check(t, ask(1, acme()))
			o.meanwhile = func() {}
			o.clock.pass(time.Millisecond)
			o.wantAsked(t, "then", ask(1, acme()), tt.forgotten)
			o.wantAsked(t, "and then again", ask(1, acme()), false)
		})
	}
}

func TestAnEngineThatRemembersNothingAlwaysAsks(t *testing.T) {
	store := &countingStore{Store: memstore.New(standing)}
	e := engine.New(store, engine.SourceMemory, engine.NewMetrics(prometheus.NewPedanticRegistry()))
	e.ForgetAll()
	e.Forget("weir:a")
	e.Swap(index(t, rule("shop/a", 1)))
	for range 3 {
		if _, err := e.Check(t.Context(), ask(1, acme())); err != nil {
			t.Fatal(err)
		}
	}
	e.ForgetAll()
	e.Forget("weir:a")
	if store.asks() != 3 {
		t.Errorf("the store was asked %d times, want 3", store.asks())
	}
}

func TestBeforeThereAreRulesThereIsNothingToForget(t *testing.T) {
	e := engine.New(memstore.New(standing), engine.SourceMemory, engine.NewMetrics(prometheus.NewPedanticRegistry()),
		engine.RememberDenials(1, standing))
	e.Forget("weir:a")
	e.ForgetAll()
	if e.Index() != nil {
		t.Error("there are rules")
	}
}

func TestMetricsTellKnownDenials(t *testing.T) {
	o := newOffence(t, rule("shop/a", 1), rule("shop/b", 5), shadow(rule("shop/c", 1)))
	for range 5 {
		o.check(t, ask(1, nil))
	}
	want := `
# HELP weir_decisions_total Decisions by policy, without peeks. The result is allowed, denied, uncharged (another policy denied the request) or unlimited (an unlimited tier applies).
# TYPE weir_decisions_total counter
weir_decisions_total{axis="Tenant",policy="shop/a",result="allowed",source="memory"} 1
weir_decisions_total{axis="Tenant",policy="shop/a",result="denied",source="cache"} 3
weir_decisions_total{axis="Tenant",policy="shop/a",result="denied",source="memory"} 1
weir_decisions_total{axis="Tenant",policy="shop/b",result="allowed",source="memory"} 1
weir_decisions_total{axis="Tenant",policy="shop/b",result="uncharged",source="memory"} 1
weir_decisions_total{axis="Tenant",policy="shop/c",result="allowed",source="memory"} 1
weir_decisions_total{axis="Tenant",policy="shop/c",result="denied",source="memory"} 1
# HELP weir_known_denials Cached denials, which are repeated without a call to the store. Expired denials count until they are evicted.
# TYPE weir_known_denials gauge
weir_known_denials 1
# HELP weir_missing_identifier_total Requests that matched a policy but lack its identifier. They are counted under the identifier "-".
# TYPE weir_missing_identifier_total counter
weir_missing_identifier_total{axis="Tenant",policy="shop/a"} 5
weir_missing_identifier_total{axis="Tenant",policy="shop/b"} 5
weir_missing_identifier_total{axis="Tenant",policy="shop/c"} 5
`
	names := []string{"weir_decisions_total", "weir_missing_identifier_total", "weir_known_denials"}
	if err := testutil.GatherAndCompare(o.registry, strings.NewReader(want), names...); err != nil {
		t.Error(err)
	}
	if n := observations(t, o.registry, "weir_store_duration_seconds"); n != 2 {
		t.Errorf("%d asks of the store are counted, want 2", n)
	}
	o.Swap(index(t, rule("shop/b", 5)))
	if n, err := testutil.GatherAndCount(o.registry, "weir_decisions_total"); err != nil || n != 2 {
		t.Errorf("after a policy went, %d series (%v), want 2", n, err)
	}
}

// observations is how often a histogram has observed, over all its series.
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

// Many offend while others forget, reset and change the rules: nobody is admitted beyond the limit, and nobody is told
// so by a denial of before a reset.
func TestManyOffendersAtOnce(t *testing.T) {
	const callers, each, limit = 4, 3000, 7
	o := newOffence(t, rule("shop/a", limit))
	one, another := o.Index(), index(t, rule("shop/a", limit), rule("shop/b", 1_000_000))
	var admitted atomic.Int64
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for range each {
				answer, err := o.Check(t.Context(), ask(1, acme()))
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
				o.Swap([]*rules.Index{one, another}[i%2])
			case 1:
				o.Forget("weir:throttle:tenant:{acme}:shop/a:x")
			case 2:
				o.ForgetAll()
			}
		}
	})
	wg.Wait()
	if admitted.Load() != limit {
		t.Errorf("%d requests were admitted, want %d", admitted.Load(), limit)
	}
	key := one.Match(nil, &ask(1, acme()).Request)[0].Key("acme")
	if err := o.store.Reset(t.Context(), []string{key}); err != nil {
		t.Fatal(err)
	}
	o.clock.pass(time.Microsecond)
	o.Forget(key)
	if answer, _ := o.check(t, ask(1, acme())); !answer.Allowed {
		t.Error("after a reset the first request is denied")
	}
}
