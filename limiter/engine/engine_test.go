package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/memstore"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/matching"
	"github.com/weir-dev/weir/limiter/store"
)

func rule(policy string, units int64) rules.Rule {
	domain, _, _ := strings.Cut(policy, "/")
	return rules.Rule{
		Policy: policy, Domain: domain, Axis: "Tenant",
		Identifier: rules.Identifier{From: rules.FromHeader, Name: "tenant"},
		Algorithm:  limiter.SlidingWindowLog, Units: units, WindowSeconds: 60,
	}
}

func shadow(r rules.Rule) rules.Rule {
	r.Shadow = true
	return r
}

func index(t testing.TB, list ...rules.Rule) *matching.Index {
	t.Helper()
	slices.SortFunc(list, func(a, b rules.Rule) int { return strings.Compare(a.Policy, b.Policy) })
	set := rules.Set{Rules: list}
	_, revision := rules.Encode(set)
	x, err := matching.NewIndex(set, revision, "weir:")
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func epoch() time.Time { return time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC) }

func newEngine(t testing.TB, list ...rules.Rule) (*engine.Engine, *prometheus.Registry) {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	e, _ := newLayered(memstore.New(epoch), engine.SourceMemory, registry, store.Layers{})
	e.Swap(index(t, list...))
	return e, registry
}

func request(cost int64, headers map[string]string) *engine.Check {
	return &engine.Check{Cost: cost, Request: rules.Request{Domain: "shop", Method: "GET", Path: "/", Headers: headers}}
}

// lines formats the results of an answer: "policy identifier allowed remaining".
func lines(a engine.Answer) []string {
	var out []string
	for _, r := range a.Results {
		out = append(out, fmt.Sprintf("%s %s %v %d", r.Rule.Policy, r.Identifier, r.Allowed, r.Remaining))
	}
	return out
}

func TestCheck_OrdersResultsStrictestFirst(t *testing.T) {
	e, _ := newEngine(t,
		rule("shop/a-wide", 100),
		rule("shop/b-tight", 2),
		shadow(rule("shop/c-trial", 1)),
		rule("shop/d-same", 100),
		rule("other/elsewhere", 1),
	)
	acme := map[string]string{"tenant": "acme"}
	steps := []struct {
		name    string
		check   *engine.Check
		allowed bool
		want    []string
	}{
		{
			"the first request is allowed by all rules", request(1, acme), true,
			[]string{"shop/b-tight acme true 1", "shop/a-wide acme true 99", "shop/d-same acme true 99", "shop/c-trial acme true 0"},
		},
		{
			"the second request is denied by the shadow rule only", request(1, acme), true,
			[]string{"shop/b-tight acme true 0", "shop/a-wide acme true 98", "shop/d-same acme true 98", "shop/c-trial acme false 0"},
		},
		{
			"the third request is denied and not charged", request(1, acme), false,
			[]string{"shop/b-tight acme false 0", "shop/a-wide acme true 98", "shop/d-same acme true 98", "shop/c-trial acme false 0"},
		},
		{
			"another tenant has counters of its own", request(2, map[string]string{"tenant": "globex"}), true,
			[]string{"shop/b-tight globex true 0", "shop/a-wide globex true 98", "shop/d-same globex true 98", "shop/c-trial globex false 1"},
		},
	}
	for _, step := range steps {
		answer, err := e.Check(t.Context(), step.check)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(step.want, lines(answer)); diff != "" || answer.Allowed != step.allowed {
			t.Errorf("%s: allowed %v, want %v (-want +got):\n%s", step.name, answer.Allowed, step.allowed, diff)
		}
		if got := answer.Strictest().Rule.Policy; got != "shop/b-tight" || answer.Source != engine.SourceMemory {
			t.Errorf("%s: strictest is %s, source %s", step.name, got, answer.Source)
		}
	}
}

func TestCheck_DelaysByTheLongestDelayOfTheEnforcedRules(t *testing.T) {
	leaky := func(policy string, perMinute int64) rules.Rule {
		r := rule(policy, perMinute)
		r.Algorithm, r.Burst = limiter.LeakyBucket, 1
		return r
	}
	e, _ := newEngine(t, leaky("shop/a", 60), leaky("shop/b", 30), shadow(leaky("shop/c", 6)))
	for n, want := range []struct {
		allowed bool
		delay   time.Duration
	}{{true, 0}, {true, 2 * time.Second}, {false, 0}} {
		answer, err := e.Check(t.Context(), request(1, nil))
		if err != nil || answer.Allowed != want.allowed || answer.Delay != want.delay {
			t.Errorf("request %d: allowed %v after %v (%v), want %v after %v", n, answer.Allowed, answer.Delay, err, want.allowed, want.delay)
		}
	}
}

func TestCheck_PeekChangesNothing(t *testing.T) {
	e, registry := newEngine(t, rule("shop/a", 2), shadow(rule("shop/b", 1)))
	peek := request(2, nil)
	peek.Peek = true
	for range 3 {
		answer, err := e.Check(t.Context(), peek)
		if err != nil {
			t.Fatal(err)
		}
		if !answer.Allowed || answer.Results[0].Remaining != 2 {
			t.Fatalf("got %v, want allowed with 2 left", lines(answer))
		}
	}
	if n, err := testutil.GatherAndCount(registry, "weir_decisions_total", "weir_shadow_denials_total", "weir_missing_identifier_total"); err != nil || n != 0 {
		t.Errorf("peeks created %d series (%v), want 0", n, err)
	}
}

func TestCheck_AllowsWhatNoEnforcedRuleMatches(t *testing.T) {
	t.Run("in a domain without policies", func(t *testing.T) {
		e, _ := newEngine(t, rule("other/a", 1))
		answer, err := e.Check(t.Context(), request(1, nil))
		if err != nil || !answer.Allowed || answer.Source != engine.SourceNone || answer.Revision == "" {
			t.Errorf("got %+v, %v", answer, err)
		}
	})
	t.Run("under shadow rules only", func(t *testing.T) {
		e, _ := newEngine(t, shadow(rule("shop/a", 1)))
		answer, err := e.Check(t.Context(), request(2, nil))
		if err != nil || !answer.Allowed || answer.Strictest() != nil || len(answer.Results) != 1 {
			t.Errorf("got %+v, %v", answer, err)
		}
	})
}

func TestMetrics_CountDecisionsByRule(t *testing.T) {
	e, registry := newEngine(t, rule("shop/a", 1), rule("shop/b", 5), shadow(rule("shop/c", 1)))
	for range 2 {
		if _, err := e.Check(t.Context(), request(1, nil)); err != nil {
			t.Fatal(err)
		}
	}
	want := `
# HELP weir_decisions_total Decisions by policy, without peeks. The result is allowed, denied, uncharged (another policy denied the request) or unlimited (an unlimited tier applies). The tier is empty if the limit of the policy applies, and _other for the tiers of policies beyond the first 512 tiers of a namespace, by age.
# TYPE weir_decisions_total counter
weir_decisions_total{axis="Tenant",policy="shop/a",result="allowed",source="memory",tier=""} 1
weir_decisions_total{axis="Tenant",policy="shop/a",result="denied",source="memory",tier=""} 1
weir_decisions_total{axis="Tenant",policy="shop/b",result="allowed",source="memory",tier=""} 1
weir_decisions_total{axis="Tenant",policy="shop/b",result="uncharged",source="memory",tier=""} 1
weir_decisions_total{axis="Tenant",policy="shop/c",result="allowed",source="memory",tier=""} 1
weir_decisions_total{axis="Tenant",policy="shop/c",result="denied",source="memory",tier=""} 1
# HELP weir_missing_identifier_total Requests that matched a policy without an identifier. The reason is missing (counted under the identifier "-") or unreadable (counted under "?"), for example a text that is no address.
# TYPE weir_missing_identifier_total counter
weir_missing_identifier_total{axis="Tenant",policy="shop/a",reason="missing"} 2
weir_missing_identifier_total{axis="Tenant",policy="shop/b",reason="missing"} 2
weir_missing_identifier_total{axis="Tenant",policy="shop/c",reason="missing"} 2
# HELP weir_rules_policies Policies in the active rule set.
# TYPE weir_rules_policies gauge
weir_rules_policies 3
# HELP weir_shadow_denials_total Requests that a shadow policy would have denied.
# TYPE weir_shadow_denials_total counter
weir_shadow_denials_total{policy="shop/c"} 1
`
	names := []string{"weir_decisions_total", "weir_missing_identifier_total", "weir_rules_policies", "weir_shadow_denials_total"}
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), names...); err != nil {
		t.Error(err)
	}
	e.Swap(index(t, rule("shop/b", 5)))
	for name, want := range map[string]int{"weir_decisions_total": 2, "weir_missing_identifier_total": 1, "weir_rules_revision_info": 1} {
		if got, err := testutil.GatherAndCount(registry, name); err != nil || got != want {
			t.Errorf("after two policies were removed: %d series of %s (%v), want %d", got, name, err, want)
		}
	}
}

// slowStore calls duringSpend while a call is in flight.
type slowStore struct {
	limiter.Store
	duringSpend func()
}

func (s slowStore) Spend(ctx context.Context, charges []limiter.Charge) ([]limiter.Decision, error) {
	s.duringSpend()
	return s.Store.Spend(ctx, charges)
}

func TestMetrics_DropTheSeriesOfAPolicyRemovedDuringACheck(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	var e *engine.Engine
	store := slowStore{memstore.New(epoch), func() { e.Swap(index(t, rule("shop/b", 5))) }}
	e = engine.New(store, engine.SourceMemory, engine.NewMetrics(registry))
	e.Swap(index(t, rule("shop/a", 1), rule("shop/b", 5), shadow(rule("shop/c", 1))))
	if answer, err := e.Check(t.Context(), request(2, nil)); err != nil || len(answer.Results) != 3 {
		t.Fatalf("got %v, %v; want the results of the rules that the check began with", lines(answer), err)
	}
	for name, want := range map[string]int{"weir_decisions_total": 1, "weir_missing_identifier_total": 1, "weir_shadow_denials_total": 0} {
		if got, err := testutil.GatherAndCount(registry, name); err != nil || got != want {
			t.Errorf("%d series of %s (%v), want %d", got, name, err, want)
		}
	}
}

func TestCheck_BeforeTheFirstSwapReturnsErrNoRules(t *testing.T) {
	e := engine.New(memstore.New(epoch), engine.SourceMemory, engine.NewMetrics(prometheus.NewRegistry()))
	if answer, err := e.Check(t.Context(), request(1, nil)); !errors.Is(err, engine.ErrNoRules) {
		t.Errorf("got %+v, %v", answer, err)
	}
}

// brokenStore fails every call.
type brokenStore struct{ err error }

func (s brokenStore) Spend(context.Context, []limiter.Charge) ([]limiter.Decision, error) {
	return nil, s.err
}

func (s brokenStore) Peek(context.Context, []limiter.Charge) ([]limiter.Decision, error) {
	return nil, s.err
}

func (s brokenStore) Refund(context.Context, []limiter.Refund) error { return s.err }

func (s brokenStore) Reset(context.Context, []string, string) error { return s.err }

// kindError is an error that reports its kind.
type kindError struct {
	error

	kind string
}

func (k kindError) Kind() string { return k.kind }

func TestCheck_ReturnsAndCountsTheErrorOfTheStore(t *testing.T) {
	for kind, cause := range map[string]error{
		"timeout": context.DeadlineExceeded, "canceled": context.Canceled, "other": errors.New("READONLY"),
		"readonly": fmt.Errorf("spend: %w", kindError{context.DeadlineExceeded, "readonly"}),
	} {
		registry := prometheus.NewRegistry()
		e, _ := newLayered(brokenStore{cause}, engine.SourceRedis, registry, store.Layers{})
		e.Swap(index(t, rule("shop/a", 1)))
		if _, err := e.Check(t.Context(), request(1, nil)); !errors.Is(err, cause) {
			t.Errorf("error %v, want %v", err, cause)
		}
		// The kinds of an outage have series from the start: rate() sees no increase of a series that begins with its first error.
		want := map[string]float64{"timeout": 0, "disconnected": 0, "unreachable": 0, "unavailable": 0}
		want[kind] = 1
		if diff := cmp.Diff(want, storeErrors(t, registry)); diff != "" {
			t.Errorf("weir_store_errors_total by kind (-want +got):\n%s", diff)
		}
	}
}

// storeErrors returns weir_store_errors_total by kind.
func storeErrors(t *testing.T, registry prometheus.Gatherer) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	byKind := map[string]float64{}
	for _, family := range families {
		if family.GetName() == "weir_store_errors_total" {
			for _, m := range family.GetMetric() {
				byKind[m.GetLabel()[0].GetValue()] = m.GetCounter().GetValue()
			}
		}
	}
	return byKind
}

func TestSwap_EveryCheckSeesOneWholeRuleSet(t *testing.T) {
	e, _ := newEngine(t, rule("shop/a", 1_000_000))
	sets := []*matching.Index{
		index(t, rule("shop/a", 1_000_000)),
		index(t, rule("shop/a", 500_000), rule("shop/b", 500_000)),
	}
	size := map[string]int{sets[0].Revision(): 1, sets[1].Revision(): 2}
	done := make(chan struct{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				answer, err := e.Check(t.Context(), request(1, nil))
				if err != nil || len(answer.Results) != size[answer.Revision] {
					t.Errorf("%d results at revision %s (%v)", len(answer.Results), answer.Revision, err)
					return
				}
			}
		})
	}
	for i := range 2000 {
		e.Swap(sets[i%2])
	}
	close(done)
	wg.Wait()
}

func BenchmarkCheck(b *testing.B) {
	e, _ := newEngine(b, rule("shop/a", 1_000_000), rule("shop/b", 1_000_000))
	check := request(1, map[string]string{"tenant": "acme"})
	b.ReportAllocs()
	for b.Loop() {
		if _, err := e.Check(b.Context(), check); err != nil {
			b.Fatal(err)
		}
	}
}

func TestNewMetrics_NeedsNoRegistry(t *testing.T) {
	if engine.NewMetrics(nil) == nil {
		t.Error("no metrics")
	}
}
