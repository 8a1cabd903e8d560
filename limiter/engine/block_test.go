package engine_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/memstore"
	"github.com/weir-dev/weir/limiter/rules"
)

// blockOf is a rule that denies everything under an algorithm.
func blockOf(policy string, algorithm limiter.Algorithm) rules.Rule {
	r := rule(policy, 0)
	r.Algorithm = algorithm
	return r
}

func TestCheck_ALimitOf0DeniesWithoutTheStore(t *testing.T) {
	for _, algorithm := range limiter.Algorithms() {
		counted := &countingStore{Store: memstore.New(epoch)}
		registry := prometheus.NewRegistry()
		e := engine.New(counted, engine.SourceRedis, engine.NewMetrics(registry))
		block := blockOf("shop/a", algorithm)
		block.OnStoreFailure, block.Cost = rules.AllowOnFailure, &rules.Cost{Value: 3}
		e.Swap(index(t, block, rule("shop/b", 10)))
		for name, change := range map[string]func(*engine.Check){
			"one": func(*engine.Check) {}, "none": func(c *engine.Check) { c.Cost = 0 }, "many": func(c *engine.Check) { c.Cost = limiter.MaxUnits },
			"no delay": func(c *engine.Check) { c.NoDelay = true }, "a short delay": func(c *engine.Check) { c.MaxDelay = time.Second },
			"an override": func(c *engine.Check) { c.Override = &engine.Override{Units: 10, Window: time.Minute} },
		} {
			c := request(1, acme())
			change(c)
			answer, err := e.Check(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			first := answer.Results[0]
			if diff := cmp.Diff([]string{"shop/a acme false 0"}, lines(answer)); diff != "" || answer.Allowed || answer.Source != engine.SourceNone ||
				first.RetryAfter != limiter.Never || first.Decision.Limit != 0 || first.Window != time.Minute {
				t.Errorf("%s, %s: %+v (-want +got):\n%s", algorithm, name, answer, diff)
			}
		}
		if n := counted.calls(); n != 0 {
			t.Errorf("%s: %d calls of the store", algorithm, n)
		}
		if err := e.Refund(t.Context(), []engine.Check{*request(1, acme())}); err != nil {
			t.Error(err)
		}
		decisions(t, registry, "shop/a denied ||||||\n")
	}
}

func TestCheck_ATierWithLimit0DeniesAndOthersCount(t *testing.T) {
	r := rule("shop/a", 2)
	r.Tiers = []rules.Tier{{Name: "banned", When: rules.When{Groups: []string{"banned"}}}}
	e, _ := newEngine(t, r)
	banned := request(1, acme())
	banned.Request.Claims = map[string]any{"groups": []any{"banned"}}
	for _, step := range []struct {
		check *engine.Check
		want  string
	}{
		{request(1, acme()), "shop/a acme true 1"}, {banned, "shop/a acme false 0"}, {request(1, acme()), "shop/a acme true 0"}, {banned, "shop/a acme false 0"},
	} {
		answer, err := e.Check(t.Context(), step.check)
		if diff := cmp.Diff([]string{step.want}, lines(answer)); err != nil || diff != "" {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
	}
}

// An allow list.
func TestCheck_TiersOfALimitOf0CanAllow(t *testing.T) {
	r := rule("shop/a", 0)
	r.Tiers = []rules.Tier{
		{Name: "partner", When: rules.When{Identifiers: []string{"acme"}}, Units: 2}, {Name: "own", When: rules.When{Identifiers: []string{"us"}}, Unlimited: true},
	}
	e, registry := newEngine(t, r)
	for _, step := range []struct{ tenant, want string }{
		{"acme", "shop/a acme true 1"}, {"acme", "shop/a acme true 0"}, {"acme", "shop/a acme false 0"}, {"us", ""}, {"other", "shop/a other false 0"}, {"", "shop/a - false 0"},
	} {
		headers := map[string]string{}
		if step.tenant != "" {
			headers["tenant"] = step.tenant
		}
		answer, err := e.Check(t.Context(), request(1, headers))
		if got := strings.Join(lines(answer), ", "); err != nil || got != step.want {
			t.Errorf("%s: %s, %v, want %s", step.tenant, got, err, step.want)
		}
	}
	decisions(t, registry, "shop/a allowed ||\nshop/a denied |\nshop/a denied ||\nshop/a unlimited |\n")
}

// A request of a batch that a tier denies must not merge with one of the same identifier that is counted, in either order.
func TestCheckAll_ABlockedRequestChargesNoneOfTheOthers(t *testing.T) {
	r := rule("shop/a", 2)
	r.Tiers = []rules.Tier{{Name: "banned", When: rules.When{Groups: []string{"banned"}}}}
	e, _ := newEngine(t, r)
	banned := *request(1, acme())
	banned.Request.Claims = map[string]any{"groups": []any{"banned"}}
	for _, isAlternative := range []bool{false, true} {
		for at := range 2 {
			checks := []engine.Check{*request(1, acme()), *request(1, acme())}
			checks[at] = banned
			checks[0].Alternative, checks[1].Alternative = isAlternative, isAlternative
			answers, err := e.CheckAll(t.Context(), checks)
			if err != nil || answers[at].Allowed || answers[at].Results[0].Tier != "banned" {
				t.Errorf("banned is %d of 2: %v, %v", at, format(answers), err)
			}
		}
	}
	if answer, err := e.Check(t.Context(), request(1, acme())); err != nil || answer.Results[0].Remaining != 1 {
		t.Errorf("%v, %v: want nothing charged before", lines(answer), err)
	}
}

func TestCheck_ALimitOf0InShadowModeReportsAndChargesOthers(t *testing.T) {
	e, registry := newEngine(t, shadow(rule("shop/a", 0)), rule("shop/b", 2))
	answer, err := e.Check(t.Context(), request(1, acme()))
	if diff := cmp.Diff([]string{"shop/b acme true 1", "shop/a acme false 0"}, lines(answer)); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if !answer.Allowed || answer.Source != engine.SourceMemory || answer.Results[1].Source != engine.SourceNone {
		t.Errorf("%+v", answer)
	}
	decisions(t, registry, "shop/a denied |\nshop/b allowed |\n")
}

// Debts report usage that has happened.
func TestCheck_ALimitOf0LetsDebtsOfOthersCount(t *testing.T) {
	e, _ := newEngine(t, tokens(100), rule("shop/z", 0))
	answer, err := e.Check(t.Context(), request(7, acme()))
	if err != nil || answer.Allowed || !slices.ContainsFunc(answer.Results, func(r engine.Result) bool { return r.Rule.Debt && r.Remaining == 93 }) {
		t.Errorf("%v, %v", lines(answer), err)
	}
}

func TestCheck_ALimitOf0DeniesWhileTheStoreIsUnavailable(t *testing.T) {
	debt := onFailure(tokens(100), rules.DenyOnFailure)
	for _, others := range [][]rules.Rule{nil, {rule("shop/b", 10)}, {onFailure(rule("shop/b", 10), rules.DenyOnFailure)}, {debt}} {
		for _, failure := range []rules.StoreFailure{rules.LocalOnFailure, rules.AllowOnFailure, rules.DenyOnFailure} {
			e := newOutageEngine(t, append(slices.Clone(others), onFailure(rule("shop/z", 0), failure))...)
			for _, unavailable := range []bool{true, false} {
				if unavailable {
					e.store.set(all, none)
				} else {
					e.store.set(none, all)
				}
				answer, err := e.Check(t.Context(), request(1, acme()))
				if err != nil || answer.Allowed || answer.Results[0].Rule.Policy != "shop/z" {
					t.Errorf("%d others, %s: %v, %v", len(others), failure, lines(answer), err)
				}
				if x := explain(t, e.Engine, request(1, acme())); x.Answer.Allowed || x.Refused != "" || x.Answer.Strictest().Rule.Policy != "shop/z" {
					t.Errorf("%d others, %s: explained %+v", len(others), failure, x)
				}
			}
		}
	}
	store := brokenStore{errors.New("broken")}
	e := engine.New(store, engine.SourceRedis, engine.NewMetrics(prometheus.NewRegistry()))
	e.Swap(index(t, shadow(rule("shop/a", 0)), rule("shop/b", 1)))
	if _, err := e.Check(t.Context(), request(1, acme())); !errors.Is(err, store.err) {
		t.Errorf("a limit of 0 in Shadow mode hides the error of the store: %v", err)
	}
}

func TestExplain_ReportsALimitOf0(t *testing.T) {
	e, _ := newEngine(t, rule("shop/a", 0), rule("shop/b", 10))
	x := explain(t, e, request(1, acme()))
	block, counted := x.Policies[0], x.Policies[1]
	if block.Key != "" || block.Used != 0 || block.Result == nil || block.Result.Allowed || block.Terms.Limit.Units() != 0 {
		t.Errorf("%+v", block)
	}
	if counted.Key == "" || counted.Result == nil || !counted.Result.Allowed {
		t.Errorf("%+v", counted)
	}
	answer, err := e.Check(t.Context(), request(1, acme()))
	if diff := cmp.Diff(lines(answer), lines(x.Answer)); err != nil || diff != "" || x.Answer.Source != answer.Source {
		t.Errorf("%v, explained (-decided +explained):\n%s", err, diff)
	}
}
