package engine_test

import (
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/weir-dev/weir/limiter/bypass"
	"github.com/weir-dev/weir/limiter/denials"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/memstore"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/store"
)

// withBypasses returns an engine that caches denials, with a list of bypasses and the rules.
func withBypasses(t *testing.T, list ...rules.Rule) (*engine.Engine, *bypass.List, *prometheus.Registry) {
	t.Helper()
	registry, bypasses := prometheus.NewPedanticRegistry(), bypass.NewList(epoch)
	e, _ := newLayered(memstore.New(epoch), engine.SourceMemory, registry, store.Layers{Denials: denials.NewCache(10, epoch)},
		engine.WithBypasses(bypasses), engine.WithClock(epoch))
	e.Swap(index(t, list...))
	return e, bypasses, registry
}

func let(t *testing.T, list *bypass.List, name, policy, identifier string) {
	t.Helper()
	_, err := list.Add(bypass.Bypass{
		Name: name, Policy: policy, Identifier: identifier, AllIdentifiers: identifier == "", Reason: "INC-1", CreatedBy: "jane", CreatedAt: epoch(),
		ExpiresAt: epoch().Add(time.Hour),
	})
	if err != nil {
		t.Fatal(err)
	}
}

func decide(t *testing.T, e *engine.Engine, c *engine.Check) engine.Answer {
	t.Helper()
	a, err := e.Check(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestCheck_ABypassedRuleNeitherDeniesNorCounts(t *testing.T) {
	e, bypasses, registry := withBypasses(t, rule("shop/a", 1), rule("shop/b", 3))
	acme := request(1, map[string]string{"tenant": "acme"})
	decide(t, e, acme)
	if a := decide(t, e, acme); a.Allowed {
		t.Fatal("not denied")
	}
	if a := decide(t, e, acme); a.Allowed || a.Source != engine.SourceCache {
		t.Fatal("the denial is not known")
	}
	let(t, bypasses, "one", "shop/a", "acme")
	a := decide(t, e, acme)
	if !a.Allowed || !slices.Equal(lines(a), []string{"shop/b acme true 1"}) {
		t.Errorf("with a bypass: %v %q", a.Allowed, lines(a))
	}
	if len(a.Bypassed) != 1 || a.Bypassed[0].Rule.Policy != "shop/a" || a.Bypassed[0].By.Name != "one" || a.Bypassed[0].Identifier != "acme" {
		t.Errorf("%+v", a.Bypassed)
	}
	globex := request(1, map[string]string{"tenant": "globex"})
	decide(t, e, globex)
	if a := decide(t, e, globex); a.Allowed || len(a.Bypassed) > 0 {
		t.Errorf("another identifier passes: %+v", a)
	}
	decide(t, e, acme)
	if a := decide(t, e, acme); a.Allowed || a.Strictest().Rule.Policy != "shop/b" {
		t.Errorf("the other policy does not apply: %q", lines(a))
	}
	bypasses.End("one", "joe")
	let(t, bypasses, "two", "shop/b", "acme")
	if a := decide(t, e, acme); a.Allowed || a.Strictest().Rule.Policy != "shop/a" || a.Strictest().Remaining != 0 || a.Strictest().RetryAfter != time.Minute {
		t.Errorf("after the end: %q, want the unit from before the bypass", lines(a))
	}
	n, err := testutil.GatherAndCount(registry, "weir_bypassed_total")
	if err != nil || n != 2 {
		t.Errorf("%d series (%v)", n, err)
	}
	e.Swap(index(t, rule("shop/b", 3)))
	if n, err := testutil.GatherAndCount(registry, "weir_bypassed_total"); err != nil || n != 1 {
		t.Errorf("%d series (%v), want only that of the remaining policy", n, err)
	}
}

func TestCheck_ABypassForAllIncludesRequestsWithoutIdentifier(t *testing.T) {
	e, bypasses, _ := withBypasses(t, rule("shop/a", 1))
	none := request(1, nil)
	decide(t, e, none)
	let(t, bypasses, "missing", "shop/a", "-")
	if a := decide(t, e, none); !a.Allowed || len(a.Bypassed) != 1 || a.Bypassed[0].Identifier != "-" {
		t.Errorf("%+v", a)
	}
	bypasses.End("missing", "joe")
	if a := decide(t, e, none); a.Allowed {
		t.Error("allowed after the end")
	}
	let(t, bypasses, "all", "shop/a", "")
	for _, headers := range []map[string]string{nil, {"tenant": "acme"}} {
		for range 2 {
			if a := decide(t, e, request(1, headers)); !a.Allowed || a.Source != engine.SourceNone {
				t.Errorf("%v: %+v", headers, a)
			}
		}
	}
}

// A request without an identifier is not the one of a client that sends the text "-".
func TestCheck_ABypassOfAPlaceholderIsNotForClientsThatSendIt(t *testing.T) {
	for _, text := range []string{"-", "?"} {
		e, bypasses, _ := withBypasses(t, rule("shop/a", 1))
		let(t, bypasses, "one", "shop/a", text)
		sent := request(1, map[string]string{"tenant": text})
		if a := decide(t, e, sent); len(a.Bypassed) != 0 {
			t.Errorf("the tenant %q passes with the bypass of requests without a tenant: %+v", text, a.Bypassed)
		}
		let(t, bypasses, "all", "shop/a", "")
		if a := decide(t, e, sent); len(a.Bypassed) != 1 || a.Bypassed[0].Identifier != text {
			t.Errorf("the tenant %q does not pass with a bypass for all: %+v", text, a.Bypassed)
		}
	}
}

func TestRefund_OfABypassedRequestFreesNothing(t *testing.T) {
	e, bypasses, _ := withBypasses(t, rule("shop/a", 1), rule("shop/b", 2))
	acme := request(1, map[string]string{"tenant": "acme"})
	decide(t, e, acme)
	let(t, bypasses, "one", "shop/a", "acme")
	if a := decide(t, e, acme); len(a.Bypassed) != 1 {
		t.Fatal("not bypassed")
	}
	bypasses.End("one", "joe")
	if err := e.Refund(t.Context(), []engine.Check{*acme}); err != nil { // the bypassed request has failed
		t.Fatal(err)
	}
	if a := decide(t, e, acme); a.Allowed || a.Strictest().Rule.Policy != "shop/a" {
		t.Errorf("a second request in the window is charged: %q", lines(a))
	}
	let(t, bypasses, "two", "shop/a", "acme")
	if a := decide(t, e, acme); !slices.Equal(lines(a), []string{"shop/b acme true 0"}) {
		t.Errorf("%q, want the unit that the other policy has refunded", lines(a))
	}
}

func TestCheckAll_BypassesTheRequestsOfTheIdentifier(t *testing.T) {
	e, bypasses, _ := withBypasses(t, rule("shop/a", 1))
	acme, globex := request(1, map[string]string{"tenant": "acme"}), request(1, map[string]string{"tenant": "globex"})
	decide(t, e, acme)
	let(t, bypasses, "one", "shop/a", "acme")
	answers, err := e.CheckAll(t.Context(), []engine.Check{*globex, *acme})
	if err != nil || !answers[0].Allowed || !answers[1].Allowed || len(answers[0].Bypassed) != 0 || len(answers[1].Bypassed) != 1 {
		t.Errorf("%+v (%v)", answers, err)
	}
}

// An observer receives a request that only bypassed rules match, so that the decision log has it.
func TestObserver_ReceivesRequestsThatABypassLetsPass(t *testing.T) {
	o := &bypassObserver{}
	bypasses := bypass.NewList(epoch)
	e := engine.New(memstore.New(epoch), engine.SourceMemory, engine.NewMetrics(prometheus.NewPedanticRegistry()), engine.WithBypasses(bypasses), engine.ObserveDecisions(o))
	e.Swap(index(t, rule("shop/a", 1)))
	let(t, bypasses, "one", "shop/a", "acme")
	acme := request(1, map[string]string{"tenant": "acme"})
	decide(t, e, acme)
	peek := *acme
	peek.Peek = true
	decide(t, e, &peek)
	elsewhere := *acme
	elsewhere.Request.Domain = "elsewhere"
	decide(t, e, &elsewhere)
	if !slices.Equal(o.policies, []string{"shop/a"}) {
		t.Errorf("%q", o.policies)
	}
}

type bypassObserver struct{ policies []string }

func (o *bypassObserver) Select(string, bool) engine.Selection { return 1 }

func (o *bypassObserver) Decided(_ engine.Selection, _ *engine.Check, a *engine.Answer, _ bool) {
	for i := range a.Bypassed {
		o.policies = append(o.policies, a.Bypassed[i].Rule.Policy)
	}
}

func TestExplain_NamesTheBypass(t *testing.T) {
	e, bypasses, registry := withBypasses(t, rule("shop/a", 1), rule("shop/b", 2))
	acme := request(1, map[string]string{"tenant": "acme"})
	decide(t, e, acme)
	let(t, bypasses, "one", "shop/a", "acme")
	x, err := e.Explain(t.Context(), *acme)
	if err != nil {
		t.Fatal(err)
	}
	if !x.Answer.Allowed || x.Policies[0].Bypass == nil || x.Policies[0].Bypass.Name != "one" || x.Policies[0].Identifier != "acme" ||
		x.Policies[0].Result != nil || x.Policies[1].Bypass != nil || x.Policies[1].Used != 1 {
		t.Errorf("%+v", x)
	}
	if by := x.Answer.Bypassed; len(by) != 1 || by[0].Rule.Policy != "shop/a" || len(x.Answer.Results) != 1 {
		t.Errorf("answer %+v", x.Answer)
	}
	if n, err := testutil.GatherAndCount(registry, "weir_bypassed_total"); err != nil || n != 0 {
		t.Errorf("an explanation is counted: %d (%v)", n, err)
	}
}

func blockUntil(t *testing.T, list *bypass.List, name, policy, identifier string, until time.Duration) {
	t.Helper()
	_, err := list.Add(bypass.Bypass{
		Name: name, Policy: policy, Blocks: true, Identifier: identifier, AllIdentifiers: identifier == "", Reason: "INC-1", CreatedBy: "jane", CreatedAt: epoch(),
		ExpiresAt: epoch().Add(until),
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A block denies also where nothing else would: with a bypass, and in an unlimited tier.
func TestCheck_ABlockDeniesAndCountsNothing(t *testing.T) {
	free := rule("shop/a", 5)
	free.Tiers = []rules.Tier{{Name: "free", When: rules.When{Identifiers: []string{"us"}}, Unlimited: true}}
	e, bypasses, registry := withBypasses(t, free, rule("shop/b", 5))
	let(t, bypasses, "passes", "shop/a", "acme")
	blockUntil(t, bypasses, "long", "shop/a", "acme", 2*time.Hour)
	blockUntil(t, bypasses, "us", "shop/a", "us", time.Hour)
	for tenant, wait := range map[string]time.Duration{"acme": 2 * time.Hour, "us": time.Hour} {
		c := request(1, map[string]string{"tenant": tenant})
		a := decide(t, e, c)
		if !slices.Equal(lines(a), []string{"shop/a " + tenant + " false 0"}) || a.Allowed || a.Source != engine.SourceNone || len(a.Bypassed) > 0 ||
			a.Strictest().RetryAfter != wait || a.Strictest().Decision.Limit != 0 {
			t.Errorf("%s: %+v", tenant, a)
		}
		p := explain(t, e, c).Policies[0]
		if p.Bypass == nil || !p.Bypass.Blocks || p.Key != "" || p.Result == nil || p.Result.RetryAfter != wait {
			t.Errorf("%s: explained %+v", tenant, p)
		}
	}
	if a := decide(t, e, request(1, map[string]string{"tenant": "globex"})); !a.Allowed {
		t.Errorf("another identifier: %v", lines(a))
	}
	if err := e.Refund(t.Context(), []engine.Check{*request(1, map[string]string{"tenant": "us"})}); err != nil {
		t.Error(err)
	}
	decisions(t, registry, "shop/a allowed |\nshop/a denied ||\nshop/b allowed |\n")
	bypasses.End("long", "joe")
	if a := decide(t, e, request(1, map[string]string{"tenant": "acme"})); !a.Allowed || len(a.Bypassed) != 1 {
		t.Errorf("after the end of the block, the bypass applies: %+v", a)
	}
	blockUntil(t, bypasses, "all", "shop/b", "", time.Hour)
	if a := decide(t, e, request(1, nil)); a.Allowed || a.Strictest().Identifier != "-" {
		t.Errorf("a request without identifier, with a block of all: %v", lines(a))
	}
}

func TestCheck_ABlockInShadowModeDeniesNothing(t *testing.T) {
	e, bypasses, _ := withBypasses(t, shadow(rule("shop/a", 5)))
	blockUntil(t, bypasses, "one", "shop/a", "acme", time.Hour)
	if a := decide(t, e, request(1, map[string]string{"tenant": "acme"})); !a.Allowed || !slices.Equal(lines(a), []string{"shop/a acme false 0"}) {
		t.Errorf("%+v", a)
	}
}
