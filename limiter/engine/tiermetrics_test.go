package engine_test

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/weir-dev/weir/limiter/denials"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/memstore"
	"github.com/weir-dev/weir/limiter/rules"
	_ "github.com/weir-dev/weir/limiter/rules/expr/celexpr" // policies of the tests have expressions
	"github.com/weir-dev/weir/limiter/store"
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

// many returns n policies of a namespace, each for one path, with as many tiers as a policy can have.
func many(namespace string, n int) []rules.Rule {
	all := make([]rules.Rule, n)
	for i := range all {
		r := rule(fmt.Sprintf("%s/policy-%04d", namespace, i), 1)
		r.Match.Paths = []rules.PathMatch{{Type: rules.PathExact, Value: "/" + r.Policy}}
		for tier := range 16 {
			name := fmt.Sprintf("tier-%02d", tier)
			r.Tiers = append(r.Tiers, rules.Tier{Name: name, Units: 1, When: rules.When{Identifiers: []string{name}}})
		}
		all[i] = r
	}
	return all
}

// checkRows makes three requests to each tier of the rules, and to the limit of the policy: one is allowed, and one denied by the store.
func checkRows(t *testing.T, e *engine.Engine, all []rules.Rule) {
	t.Helper()
	for i := range all {
		for tier := range len(all[i].Tiers) + 1 {
			c := request(1, of(fmt.Sprintf("tier-%02d", tier)))
			c.Request.Domain, c.Request.Path = all[i].Domain, all[i].Match.Paths[0].Value
			checkTimes(t, e, 3, c)
		}
	}
}

func TestMetrics_OneNamespaceHasABoundedNumberOfSeries(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	e, _ := newLayered(memstore.New(epoch), engine.SourceMemory, registry, store.Layers{Denials: denials.NewCache(100_000, epoch)}, engine.WithClock(epoch))
	flood, bank := many("shop", 1000), many("bank", 3)
	e.Swap(index(t, slices.Concat(flood, bank)...))
	checkRows(t, e, flood)
	checkRows(t, e, bank)

	// Three results of each row: 1000 policies, 512 tiers, and the other tiers of the 968 policies that share them.
	decisions, near := series(t, registry, "weir_decisions_total"), series(t, registry, "weir_near_limit_total")
	const rows, ofBank = 1000 + 512 + 968, 3 * 17
	if got, want := len(decisions), 3*(rows+ofBank); got != want {
		t.Errorf("%d series of decisions, want %d", got, want)
	}
	if got, want := len(near), rows+ofBank; got != want {
		t.Errorf("%d series near the limit, want %d", got, want)
	}
	scrape := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(scrape, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if size := scrape.Body.Len(); size > 1<<20 {
		t.Errorf("a scrape has %d bytes, want at most 1 MiB", size)
	} else {
		t.Logf("a scrape has %d bytes", size)
	}
	for i := range bank {
		for tier := range 17 {
			label := ""
			if tier < 16 {
				label = bank[i].Tiers[tier].Name
			}
			for _, result := range []string{"allowed memory ", "denied memory ", "denied cache "} {
				if row := "Tenant " + bank[i].Policy + " " + result + label; decisions[row] != 1 {
					t.Errorf("%s: %v, want 1", row, decisions[row])
				}
			}
		}
	}
	if got := decisions["Tenant shop/policy-0999 allowed memory _other"]; got != 16 {
		t.Errorf("%v decisions of tiers that share a series, want 16", got)
	}
}

func TestMetrics_DropTheSeriesOfTiersThatBeginOrEndToShareOne(t *testing.T) {
	all := many("shop", 33)
	e, registry := newEngine(t, all[1:]...)
	last := all[32:]
	tiers := func() []string {
		labels := map[string]bool{}
		for _, metric := range []string{"weir_decisions_total", "weir_near_limit_total"} {
			for row := range series(t, registry, metric) {
				if strings.Contains(row, last[0].Policy) {
					labels[row[strings.LastIndex(row, " ")+1:]] = true
				}
			}
		}
		return slices.Sorted(maps.Keys(labels))
	}
	own := []string{""}
	for i := range last[0].Tiers {
		own = append(own, last[0].Tiers[i].Name)
	}
	for _, step := range []struct {
		rules []rules.Rule
		want  []string
	}{{all[1:], own}, {all, []string{"", "_other"}}, {all[1:], own}} {
		e.Swap(index(t, step.rules...))
		checkRows(t, e, last)
		if got := tiers(); !slices.Equal(got, step.want) {
			t.Errorf("%d policies: the last one has the tiers %q, want %q", len(step.rules), got, step.want)
		}
	}
}

func TestMetrics_CountMatchesWhoseConditionCouldNotBeEvaluated(t *testing.T) {
	failing := rule("shop/a", 100)
	failing.Match.Expression = `int(request.headers["x-size"]) > 5`
	e, registry := newEngine(t, failing, rule("shop/b", 100))
	for i, size := range []string{"7", "3", "many", "more"} {
		c := request(1, map[string]string{"tenant": "acme", "x-size": size})
		checkTimes(t, e, i+1, c)
		c.Peek = true
		checkTimes(t, e, 1, c)
	}
	if got, want := series(t, registry, "weir_uncertain_matches_total"), map[string]float64{"shop/a": 7}; !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	e.Swap(index(t, rule("shop/b", 100)))
	if got := series(t, registry, "weir_uncertain_matches_total"); len(got) > 0 {
		t.Errorf("after the policy was deleted: %v", got)
	}
}
