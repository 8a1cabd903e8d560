package engine_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/rules"
)

// tiered has a tier with 10 units for the tenant gold, an unlimited one for staff, and 5 units for all others.
func tiered(policy string) rules.Rule {
	r := rule(policy, 5)
	r.Tiers = []rules.Tier{
		{Name: "gold", Units: 10, When: rules.When{Identifiers: []string{"gold"}}},
		{Name: "staff", Unlimited: true, When: rules.When{Identifiers: []string{"staff"}}},
	}
	return r
}

// series returns the value of each series of a metric, by the values of its labels in the order of their names.
func series(t *testing.T, registry *prometheus.Registry, metric string) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]float64{}
	for _, family := range families {
		if family.GetName() != metric {
			continue
		}
		for _, m := range family.GetMetric() {
			var labels []string
			for _, label := range m.GetLabel() {
				labels = append(labels, label.GetValue())
			}
			found[strings.Join(labels, " ")] = m.GetCounter().GetValue()
		}
	}
	return found
}

func checkTimes(t *testing.T, e *engine.Engine, times int, c *engine.Check) {
	t.Helper()
	for range times {
		if _, err := e.Check(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
}

func of(name string) map[string]string { return map[string]string{"tenant": name} }

func TestMetrics_LabelDecisionsWithTheirTier(t *testing.T) {
	e, registry := newEngine(t, tiered("shop/a"))
	checkTimes(t, e, 11, request(1, of("gold")))
	checkTimes(t, e, 2, request(1, of("staff")))
	checkTimes(t, e, 6, request(1, of("acme")))
	want := map[string]float64{
		"Tenant shop/a allowed memory gold": 10, "Tenant shop/a denied memory gold": 1, "Tenant shop/a unlimited none staff": 2,
		"Tenant shop/a allowed memory ": 5, "Tenant shop/a denied memory ": 1,
	}
	if got := series(t, registry, "weir_decisions_total"); !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestMetrics_CountRequestsThatLeaveLessThanAFifthOfTheLimit(t *testing.T) {
	e, registry := newEngine(t, tiered("shop/a"))
	near := func(what string, want map[string]float64) {
		t.Helper()
		if got := series(t, registry, "weir_near_limit_total"); !maps.Equal(got, want) {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	checkTimes(t, e, 8, request(1, of("gold")))
	checkTimes(t, e, 4, request(1, of("acme")))
	near("a fifth remains", map[string]float64{})
	peek := request(1, of("gold"))
	peek.Peek = true
	checkTimes(t, e, 3, peek)
	checkTimes(t, e, 1, request(1, of("gold")))
	near("1 of 10 remains", map[string]float64{"shop/a gold": 1})
	checkTimes(t, e, 1, request(1, of("acme")))
	near("0 of 5 remain", map[string]float64{"shop/a gold": 1, "shop/a ": 1})
	checkTimes(t, e, 5, request(1, of("acme")))
	near("denials are not near the limit", map[string]float64{"shop/a gold": 1, "shop/a ": 1})
}

func TestMetrics_ARequestThatAnotherPolicyDeniesIsNotNearTheLimit(t *testing.T) {
	e, registry := newEngine(t, rule("shop/a", 1), rule("shop/b", 2))
	checkTimes(t, e, 3, request(1, of("acme")))
	want := map[string]float64{"shop/a ": 1}
	if got := series(t, registry, "weir_near_limit_total"); !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// A thousand identifiers, of which some are named as tiers, create no series of their own: the policies bound the number.
func TestMetrics_IdentifiersCreateNoSeries(t *testing.T) {
	e, registry := newEngine(t, tiered("shop/a"), tiered("shop/b"), shadow(tiered("shop/c")))
	for i := range 1000 {
		checkTimes(t, e, 1, request(6, of(fmt.Sprint("tenant-", i))))
		checkTimes(t, e, 1, request(5, of(fmt.Sprint("tenant-", i))))
	}
	checkTimes(t, e, 20, request(1, of("gold")))
	checkTimes(t, e, 2, request(1, of("staff")))
	e.Swap(index(t, tiered("shop/a")))
	checkTimes(t, e, 1, request(1, of("gold")))
	// For each of three tiers: allowed, denied and uncharged by the store, or unlimited.
	got := series(t, registry, "weir_decisions_total")
	if most := 3 * 3; len(got) == 0 || len(got) > most {
		t.Errorf("%d series of one policy, want at most %d: %v", len(got), most, slices.Sorted(maps.Keys(got)))
	}
	if got := series(t, registry, "weir_near_limit_total"); len(got) > 3 {
		t.Errorf("%d series of one policy with three tiers: %v", len(got), got)
	}
	for _, metric := range []string{"weir_decisions_total", "weir_near_limit_total"} {
		for name := range series(t, registry, metric) {
			if strings.Contains(name, "tenant-") || !strings.Contains(name, "shop/a") {
				t.Errorf("%s has a series %q", metric, name)
			}
		}
	}
	if problems, err := testutil.GatherAndLint(registry); err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
}

// A tenant can rename the tier of a policy again and again.
func TestMetrics_DropTheSeriesOfReplacedTiers(t *testing.T) {
	e, registry := newEngine(t, tiered("shop/a"))
	for i := range 20 {
		r := rule("shop/a", 5)
		r.Tiers = []rules.Tier{{Name: fmt.Sprint("gold-", i), Units: 10, When: rules.When{Identifiers: []string{"gold"}}}}
		e.Swap(index(t, r))
		checkTimes(t, e, 10, request(1, of("gold")))
		checkTimes(t, e, 1, request(1, of("other")))
	}
	for _, metric := range []string{"weir_decisions_total", "weir_near_limit_total"} {
		for labels := range series(t, registry, metric) {
			if strings.Contains(labels, "gold") && !strings.Contains(labels, "gold-19") {
				t.Errorf("%s has a series of a replaced tier: %s", metric, labels)
			}
		}
	}
	kept := fmt.Sprint(slices.Collect(maps.Keys(series(t, registry, "weir_decisions_total"))))
	if !strings.Contains(kept, "gold-19") || !strings.Contains(kept, "Tenant shop/a ") {
		t.Errorf("series %s, want also those of the last tier and of the limit of the policy", kept)
	}
}
