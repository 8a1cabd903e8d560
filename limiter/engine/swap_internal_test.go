package engine

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/memstore"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/matching"
)

func policy(name string, units int64) rules.Rule {
	return rules.Rule{
		Policy: name, Domain: "shop", Axis: "Tenant", Identifier: rules.Identifier{From: rules.FromHeader, Name: "tenant"},
		Algorithm: limiter.FixedWindow, Units: units, WindowSeconds: 60,
		Tiers: []rules.Tier{{Name: "staff", Unlimited: true, When: rules.When{Identifiers: []string{"staff"}}}},
	}
}

// updated returns the index of the list as an update of the active one.
func updated(t *testing.T, e *Engine, list ...rules.Rule) *matching.Index {
	t.Helper()
	x, err := matching.Update(e.Index(), rules.Split(rules.Set{Rules: list}), fmt.Sprint(len(list), time.Now()), "weir:")
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// during is a Store that swaps the rules during a call, and then refuses it.
type during struct {
	limiter.Store
	swap func()
}

func (s *during) Spend(context.Context, []limiter.Charge) ([]limiter.Decision, error) {
	s.swap()
	return nil, &limiter.RefusedError{Charge: 0, Cause: context.DeadlineExceeded}
}

// policiesWithSeries returns the policies that have series.
func policiesWithSeries(t *testing.T, registry *prometheus.Registry) map[string]bool {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			for _, label := range m.GetLabel() {
				if label.GetName() == "policy" {
					found[label.GetValue()] = true
				}
			}
		}
	}
	return found
}

// A Check that began under replaced rules leaves nothing of those that were removed, wherever it ends.
func TestCheck_LeavesNothingOfRulesThatWereRemovedMeanwhile(t *testing.T) {
	of := func(tenant string) *Check {
		return &Check{Cost: 1, Request: rules.Request{Domain: "shop", Path: "/", Headers: map[string]string{"tenant": tenant}}}
	}
	for name, check := range map[string]func(e *Engine, replaced *active){
		"an unlimited tier": func(e *Engine, replaced *active) { // its counter is the first one after the swap
			s := e.borrow()
			replaced.match(t.Context(), s, of("staff"))
			e.release(s)
			e.dropReplaced(replaced.index, []Check{*of("staff")})
		},
		"a refused request": func(e *Engine, _ *active) {
			if _, err := e.Check(t.Context(), of("acme")); err == nil {
				t.Error("the request was not refused")
			}
		},
		"a refused batch": func(e *Engine, _ *active) {
			if _, err := e.CheckAll(t.Context(), []Check{*of("acme"), *of("")}); err == nil {
				t.Error("the request was not refused")
			}
		},
	} {
		registry := prometheus.NewPedanticRegistry()
		store := &during{Store: memstore.New(time.Now)}
		e := New(store, SourceMemory, NewMetrics(registry))
		store.swap = func() { e.Swap(updated(t, e, policy("shop/b", 5))) }
		e.Swap(updated(t, e, policy("shop/a", 5), policy("shop/b", 5)))
		replaced := e.active.Load()
		if name == "an unlimited tier" {
			store.swap()
		}
		check(e, replaced)
		if found := policiesWithSeries(t, registry); found["shop/a"] || len(e.decided.rules) > 1 {
			t.Errorf("%s: there are series of %v, and %d rules have decided", name, found, len(e.decided.rules))
		}
		for rule := range e.counters.byRule.Range {
			if rule := rule.(*matching.Compiled); rule.Policy == "shop/a" { //nolint:forcetypeassert // see forRule
				t.Errorf("%s: the counters of shop/a are kept", name)
			}
		}
	}
}

// Edits keep the counters of the other rules, and none of replaced ones.
func TestSwap_KeepsTheCountersOfUnchangedRules(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	e := New(memstore.New(time.Now), SourceMemory, NewMetrics(registry))
	for i := range 20 {
		e.Swap(updated(t, e, policy("shop/a", 1000), policy("shop/b", int64(100+i))))
		if _, err := e.Check(t.Context(), &Check{Cost: 1, Request: rules.Request{Domain: "shop", Path: "/", Headers: map[string]string{"tenant": "acme"}}}); err != nil {
			t.Fatal(err)
		}
	}
	rules := 0
	for range e.counters.byRule.Range {
		rules++
	}
	if rules != 2 || len(e.decided.rules) > 2 {
		t.Errorf("%d rules have counters and %d have decided, want 2", rules, len(e.decided.rules))
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if text := m.String(); family.GetName() == "weir_decisions_total" && strings.Contains(text, "shop/") && m.GetCounter().GetValue() != 20 {
				t.Errorf("%s, want 20 decisions", text)
			}
		}
	}
}

// Every series of a removed policy is dropped, whatever it counts: the labels of all of them are known.
func TestSwap_DropsAllSeriesOfARemovedPolicy(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	e := New(memstore.New(time.Now), SourceMemory, NewMetrics(registry))
	e.Swap(updated(t, e, policy("shop/a", 5), policy("shop/b", 5)))
	rule, _ := e.Index().RuleOf("shop/a")
	m := e.metrics
	for _, source := range []Source{SourceRedis, SourceMemory, SourceCache, SourceLease, SourceLocal, SourceNone} {
		for _, tier := range []string{"", "staff"} {
			for result := range outcomes {
				m.decision(rule, tier, result.String(), source)
			}
			m.decision(rule, tier, unlimitedResult, source)
			m.nearLimit.WithLabelValues(rule.Policy, tier)
		}
	}
	for why := range reasons {
		m.missingIDs.WithLabelValues(rule.Policy, rule.Axis, why.String())
	}
	for _, byPolicy := range []*prometheus.CounterVec{m.shadowDenials, m.overflow, m.leftOut, m.bypassed, m.uncertain} {
		byPolicy.WithLabelValues(rule.Policy)
	}
	if !policiesWithSeries(t, registry)["shop/a"] {
		t.Fatal("there are no series")
	}
	e.Swap(updated(t, e, policy("shop/b", 5)))
	if found := policiesWithSeries(t, registry); found["shop/a"] {
		families, _ := registry.Gather()
		t.Errorf("there are series of %v: %v", found, families)
	}
}

// The label of the tiers of a rule can change although the rule does not: an older policy has got tiers.
func TestSwap_ReplacesTheTierSeriesOfUnchangedRules(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	e := New(memstore.New(time.Now), SourceMemory, NewMetrics(registry))
	all := make([]rules.Rule, 33)
	for i := range all {
		all[i] = policy(fmt.Sprintf("shop/p%02d", i), 1000)
		all[i].Tiers = nil
		for tier := range matching.MaxTierSeries / 32 {
			name := fmt.Sprint("tier-", tier)
			all[i].Tiers = append(all[i].Tiers, rules.Tier{Name: name, Units: 1000, When: rules.When{Identifiers: []string{name}}})
		}
	}
	var last *matching.Compiled
	for step, first := range []int{1, 0, 1} {
		e.Swap(updated(t, e, all[first:]...))
		rule, _ := e.Index().RuleOf("shop/p32")
		if last != nil && rule != last {
			t.Fatal("the rule was compiled again")
		}
		last = rule
		e.counters.refused(&ruleCharge{rule: rule, tier: "tier-0"})
		want, dropped := "tier-0", otherTiers
		if first == 0 {
			want, dropped = dropped, want
		}
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		if labels := fmt.Sprint(families); !strings.Contains(labels, `"`+want+`"`) || strings.Contains(labels, `"`+dropped+`"`) {
			t.Errorf("step %d: there are series of %s, or no series of %s", step, dropped, want)
		}
		if e.noteDecided(); !e.decided.rules[rule.Counted()] {
			t.Errorf("step %d: the rule has not decided", step)
		}
	}
}
