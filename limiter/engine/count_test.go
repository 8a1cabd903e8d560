package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/memstore"
	"github.com/weir-dev/weir/limiter/rules"
)

// decisions checks the series of weir_decisions_total, in lines like `policy="shop/a",result="allowed" 2`.
func decisions(t *testing.T, registry *prometheus.Registry, want string) {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for _, family := range families {
		if family.GetName() != "weir_decisions_total" {
			continue
		}
		for _, m := range family.GetMetric() {
			for _, label := range m.GetLabel() {
				if name := label.GetName(); name == "policy" || name == "result" {
					got.WriteString(label.GetValue() + " ")
				}
			}
			got.WriteString(strings.Repeat("|", int(m.GetCounter().GetValue())) + "\n")
		}
	}
	if got.String() != want {
		t.Errorf("decisions\n%swant\n%s", got.String(), want)
	}
}

func TestMetrics_CountTheRequestsOfABatchOnce(t *testing.T) {
	e, registry := newEngine(t, rule("shop/a", 3), shadow(rule("shop/b", 1)))
	if _, err := e.CheckAll(t.Context(), []engine.Check{*request(1, tenant("acme")), *request(2, tenant("globex"))}); err != nil {
		t.Fatal(err)
	}
	decisions(t, registry, "shop/a allowed ||\nshop/b allowed |\nshop/b denied |\n")
}

func TestMetrics_CountShadowDenials(t *testing.T) {
	e, registry := newEngine(t, shadow(rule("shop/a", 1)))
	for range 3 {
		if _, err := e.Check(t.Context(), request(1, nil)); err != nil {
			t.Fatal(err)
		}
	}
	want := `
# HELP weir_shadow_denials_total Requests that a shadow policy would have denied.
# TYPE weir_shadow_denials_total counter
weir_shadow_denials_total{policy="shop/a"} 2
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "weir_shadow_denials_total"); err != nil {
		t.Error(err)
	}
}

func TestMetrics_CountRequestsThatNoPolicyMatches(t *testing.T) {
	e, registry := newEngine(t, rule("shop/a", 100))
	unknown := request(1, nil)
	unknown.Request.Domain = "unknown"
	count := func(want string) {
		t.Helper()
		text := "# HELP weir_unmatched_total Requests that no policy matched.\n# TYPE weir_unmatched_total counter\nweir_unmatched_total " + want + "\n"
		if err := testutil.GatherAndCompare(registry, strings.NewReader(text), "weir_unmatched_total"); err != nil {
			t.Error(err)
		}
	}
	count("0")
	for _, check := range []*engine.Check{unknown, request(1, nil), request(1, nil)} {
		if _, err := e.Check(t.Context(), check); err != nil {
			t.Fatal(err)
		}
	}
	count("1")
	if _, err := e.CheckAll(t.Context(), []engine.Check{*unknown, *request(1, nil), *unknown, *request(1, nil)}); err != nil {
		t.Fatal(err)
	}
	count("3")
}

// An unlimited tier of one policy changes nothing about the others.
func TestCheck_AnUnlimitedTierAppliesToItsPolicyOnly(t *testing.T) {
	a := rule("shop/a", 1)
	a.Tiers = []rules.Tier{{Name: "free", Unlimited: true, When: rules.When{Identifiers: []string{"acme"}}}}
	e, registry := newEngine(t, a, rule("shop/b", 2))
	for i, want := range []string{"shop/b acme true 1", "shop/b acme true 0", "shop/b acme false 0"} {
		answer, err := e.Check(t.Context(), request(1, acme()))
		if got := strings.Join(lines(answer), ", "); err != nil || got != want {
			t.Errorf("request %d: %s, %v, want %s", i+1, got, err, want)
		}
	}
	peek := request(1, acme())
	peek.Peek = true
	if _, err := e.Check(t.Context(), peek); err != nil {
		t.Fatal(err)
	}
	decisions(t, registry, "shop/a unlimited |||\nshop/b allowed ||\nshop/b denied |\n")
}

func TestCheck_CountsRequestsWithoutIdentifierUnderADash(t *testing.T) {
	e, _ := newEngine(t, rule("shop/a", 3))
	answer, err := e.Check(t.Context(), request(1, nil))
	if got := strings.Join(lines(answer), ", "); err != nil || got != "shop/a - true 2" {
		t.Errorf("%s, %v, want shop/a - true 2", got, err)
	}
}

// Two requests of a batch are charged as one, so that they cannot both spend what is left for one of them.
func TestCheckAll_DeniesRequestsThatTogetherExceedALimit(t *testing.T) {
	e, _ := newEngine(t, rule("shop/a", 3))
	answers, err := e.CheckAll(t.Context(), []engine.Check{*request(2, acme()), *request(2, acme())})
	if err != nil || answers[0].Allowed || answers[1].Allowed || answers[0].Results[0].Remaining != 3 {
		t.Errorf("answers %v, %v, want both denied and 3 left", format(answers), err)
	}
}

func TestCheckAll_ReturnsTheErrorOfItsOnlyCheck(t *testing.T) {
	cause := errors.New("READONLY")
	e := engine.New(brokenStore{cause}, engine.SourceRedis, engine.NewMetrics(prometheus.NewRegistry()))
	e.Swap(index(t, rule("shop/a", 1)))
	for _, n := range []int{1, 2} {
		checks := []engine.Check{*request(1, acme()), *request(1, acme())}[:n]
		if answers, err := e.CheckAll(t.Context(), checks); !errors.Is(err, cause) || err.Error() != "spend on 1 counters: READONLY" {
			t.Errorf("%d checks: %v, %v, want the error of the store", n, answers, err)
		}
	}
	peek := request(1, acme())
	peek.Peek = true
	if _, err := e.Check(t.Context(), peek); err == nil || err.Error() != "peek on 1 counters: READONLY" {
		t.Errorf("error %v of a peek", err)
	}
}

// A cost that overflows is above every limit, not a small or negative one.
func TestCheck_MultipliesCostsWithoutOverflow(t *testing.T) {
	for _, times := range []int64{3, 1 << 30, 1 << 62, math.MaxInt64} {
		r := rule("shop/a", 3)
		r.Cost = &rules.Cost{Value: 4}
		e, _ := newEngine(t, r)
		answer, err := e.Check(t.Context(), request(times, acme()))
		if err != nil || answer.Allowed || answer.Results[0].RetryAfter != limiter.Never {
			t.Errorf("%d requests of 4 units: %+v, %v, want denied", times, answer, err)
		}
	}
}

// A shadow policy has no known denials, and does not hide those of the policies after it.
func TestCheck_KnownDenialIsFoundAfterAShadowPolicy(t *testing.T) {
	e := newCachingEngine(t, shadow(rule("shop/a", 1)), rule("shop/b", 1))
	e.wantCalled(t, "an allowed request", request(1, acme()), true)
	e.wantCalled(t, "a denied request", request(1, acme()), true)
	e.wantCalled(t, "a denial that is known", request(1, acme()), false)
}

// A refund takes units from as many instants as it needs.
func TestRefund_ReturnsUnitsOfSeveralInstants(t *testing.T) {
	e, clock := newTimed(t, rule("shop/a", 100))
	for range 5 {
		if _, err := e.Check(t.Context(), request(1, acme())); err != nil {
			t.Fatal(err)
		}
		clock.pass(1e9)
	}
	if err := e.Refund(t.Context(), []engine.Check{*request(4, acme())}); err != nil {
		t.Fatal(err)
	}
	answer, err := e.Check(t.Context(), request(0, acme()))
	if err != nil || answer.Results[0].Remaining != 99 {
		t.Errorf("%v, %v, want 99 of 100 left after 4 of 5 units were refunded", lines(answer), err)
	}
}

// decided returns the policies whose rules have decided a request.
func decided(t *testing.T, e *engine.Engine) string {
	t.Helper()
	revision, bitmap := e.Decided()
	if revision != e.Index().Revision() || bitmap == nil || len(bitmap) > (e.Index().Len()+7)/8 {
		t.Errorf("revision %s of %s, bitmap %v", revision, e.Index().Revision(), bitmap)
	}
	var policies []string
	i := 0
	for policy := range e.Index().Policies() {
		if i/8 < len(bitmap) && bitmap[i/8]>>(i%8)&1 == 1 {
			policies = append(policies, policy)
		}
		i++
	}
	return strings.Join(policies, " ")
}

func TestDecided_HasTheRulesThatHaveDecidedARequest(t *testing.T) {
	of := func(policy, tenant string) rules.Rule { // matches only this tenant
		r := rule(policy, 2)
		r.Match.Headers = []rules.HeaderMatch{{Type: rules.HeaderExact, Name: "tenant", Value: tenant}}
		return r
	}
	unlimited, blocked := of("shop/i-unlimited", "internal"), of("shop/j-blocked", "blocked")
	unlimited.Tiers = []rules.Tier{{Name: "all", When: rules.When{Identifiers: []string{"internal"}}, Unlimited: true}}
	blocked.Units = 0
	list := []rules.Rule{unlimited, blocked, shadow(of("shop/k-shadow", "acme"))}
	for name := range strings.SplitSeq("abcdefgh", "") {
		list = append(list, of("shop/"+name, name))
	}
	e, _ := newEngine(t, list...)
	send := func(tenants ...string) {
		for _, name := range tenants {
			if _, err := e.Check(t.Context(), request(1, tenant(name))); err != nil {
				t.Fatal(err)
			}
		}
	}
	has := func(when, want string) {
		t.Helper()
		if got := decided(t, e); got != want {
			t.Errorf("%s: %q have decided, want %q", when, got, want)
		}
	}
	peek := request(1, tenant("a"))
	peek.Peek = true
	if _, err := e.Check(t.Context(), peek); err != nil {
		t.Fatal(err)
	}
	has("after a peek", "")
	send("acme", "b")
	has("after two requests", "shop/b shop/k-shadow")
	send("internal", "blocked", "h")
	has("after five", "shop/b shop/h shop/i-unlimited shop/j-blocked shop/k-shadow")
	send("c")                                 // immediately before the swap
	edited := []rules.Rule{rule("shop/0", 5)} // moves all others
	for _, r := range list {
		switch r.Policy {
		case unlimited.Policy: // removed
		case "shop/k-shadow":
			r.Units = 7
			edited = append(edited, r)
		default:
			edited = append(edited, r)
		}
	}
	e.Swap(index(t, edited...))
	has("after one rule was removed and one edited", "shop/b shop/c shop/h shop/j-blocked")
	e.Swap(index(t, list...))
	has("after the edits were undone", "shop/b shop/c shop/h shop/j-blocked")
}

// The rates of a policy have one bit, at the place of its name: "shop/a:1d" is after "shop/a-b", and "shop/a" before it.
func TestDecided_CountsTheRatesOfAPolicyAsOne(t *testing.T) {
	list := []rules.Rule{rule("shop/a-b", 5), rule("shop/a:1d", 5), rule("shop/a:1m", 5), rule("shop/c", 5)}
	list[1].Rate, list[2].Rate, list[2].WindowSeconds = "1d", "1m", 86400
	for i := range list {
		list[i].Match.Headers = []rules.HeaderMatch{{Type: rules.HeaderExact, Name: "tenant", Value: list[i].PolicyName()}}
	}
	for policy, want := range map[string]byte{"shop/a": 1, "shop/a-b": 2, "shop/c": 4} {
		e, _ := newEngine(t, list...)
		if _, err := e.Check(t.Context(), request(1, map[string]string{"tenant": policy})); err != nil {
			t.Fatal(err)
		}
		if _, bitmap := e.Decided(); !slices.Equal(bitmap, []byte{want}) {
			t.Errorf("%s has decided: bitmap %v, want %d", policy, bitmap, want)
		}
	}
}

func TestDecided_HasRequestsThatEndAfterTheSwap(t *testing.T) {
	var e *engine.Engine
	during := slowStore{memstore.New(epoch), func() { e.Swap(index(t, rule("shop/a", 5), rule("shop/b", 2))) }}
	e = engine.New(during, engine.SourceMemory, engine.NewMetrics(prometheus.NewRegistry()))
	if revision, bitmap := e.Decided(); revision != "" || bitmap != nil {
		t.Errorf("before the first rules: %q, %v", revision, bitmap)
	}
	e.Swap(index(t, rule("shop/a", 5), rule("shop/b", 1)))
	if _, err := e.Check(t.Context(), request(1, nil)); err != nil {
		t.Fatal(err)
	}
	if got := decided(t, e); got != "shop/a" {
		t.Errorf("%q have decided, want shop/a, which has not changed", got)
	}
}

// Local mode decides as well: a policy that denies without Redis is one that requests reach.
func TestDecided_HasRequestsOfLocalMode(t *testing.T) {
	for name, s := range map[string]limiter.Store{
		"refused": brokenStore{&limiter.RefusedError{Cause: errors.New("redis is unavailable")}},
		"decided": origin{memstore.New(epoch), limiter.OriginLocal},
		"leased":  origin{memstore.New(epoch), limiter.OriginLease},
		"denied":  origin{memstore.New(epoch), limiter.OriginDenial},
	} {
		e := engine.New(s, engine.SourceRedis, engine.NewMetrics(prometheus.NewRegistry()))
		e.Swap(index(t, rule("shop/a", 5)))
		_, err := e.Check(t.Context(), request(1, nil))
		if got := decided(t, e); got != "shop/a" {
			t.Errorf("%s (%v): %q have decided, want shop/a", name, err, got)
		}
	}
}

// origin reports this origin of each decision.
type origin struct {
	limiter.Store
	of limiter.Origin
}

func (s origin) Spend(ctx context.Context, charges []limiter.Charge) ([]limiter.Decision, error) {
	decisions, err := s.Store.Spend(ctx, charges)
	for i := range decisions {
		decisions[i].Origin = s.of
	}
	return decisions, err
}

// A heartbeat reads the bitmap once a second.
func BenchmarkDecided(b *testing.B) {
	list := make([]rules.Rule, 10_000)
	for i := range list {
		list[i] = rule(fmt.Sprintf("shop/p%05d", i), 5)
	}
	e, _ := newEngine(b, list...)
	if _, err := e.Check(b.Context(), request(1, nil)); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		e.Decided()
	}
}
