package compile_test

import (
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"pgregory.net/rapid"

	"github.com/weir-dev/weir/api/v1alpha1/policyapi"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/compile/redundancy"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/memstore"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/matching"
	"github.com/weir-dev/weir/test/fixture/policytest"
)

// TestIsRedundant_ConsidersEveryFieldOfARule fails when a Rule or a Match gets a new field. Check first whether
// [compile.IsRedundant] must compare it.
func TestIsRedundant_ConsidersEveryFieldOfARule(t *testing.T) {
	for _, c := range []struct {
		of   reflect.Type
		want []string
	}{
		{reflect.TypeFor[rules.Rule](), []string{
			"Policy", "Rate", "Counter", "Domain", "Domains", "AllDomains", "Default", "ReplacesDefaults", "Axis", "Identifier", "Fallbacks", "OnMissing", "PerEndpoint",
			"Match", "Algorithm", "Units",
			"WindowSeconds", "Burst", "TiersOnly", "Tiers", "Cost", "Debt", "WholeDebt", "Shadow", "OnStoreFailure", "LocalShare", "Lease", "Compact", "Denial",
		}},
		{reflect.TypeFor[rules.Match](), []string{"Hosts", "Paths", "IgnoreCase", "Methods", "Headers", "CIDRs", "ExceptCIDRs", "Expression", "Descriptors", "Kubernetes", "Routes"}},
		{reflect.TypeFor[rules.KubernetesMatch](), []string{"Resources", "Namespaces", "NamespaceSelector", "Users", "Groups", "ExceptUsers", "ExceptGroups"}},
	} {
		var fields []string
		for field := range c.of.Fields() {
			fields = append(fields, field.Name)
		}
		if diff := cmp.Diff(c.want, fields); diff != "" {
			t.Errorf("%v (-want +got):\n%s", c.of, diff)
		}
	}
}

// drawPolicy draws each field of a policy from few values. Two drawn policies often have values in common.
func drawPolicy(t *rapid.T, name string) policyapi.RateLimitPolicy {
	oneOf := func(label string, values ...string) string { return rapid.SampledFrom(values).Draw(t, name+": "+label) }
	spec := []string{
		"axis: " + oneOf("axis", "User", "User", "IP", "Endpoint"),
		"limit: " + oneOf("limit", "1", "2", "3", "5"),
		"window: " + oneOf("window", "1s", "2s", "3s", "4s"),
		oneOf("algorithm", "algorithm: FixedWindow", "algorithm: SlidingWindowLog", "algorithm: SlidingWindowCounter",
			"algorithm: TokenBucket", "algorithm: TokenBucket, burst: 2", "algorithm: LeakyBucket", "algorithm: LeakyBucket, burst: 2"),
		oneOf("scope", "", "", "scope: Endpoint"),
		oneOf("cost", "", "", "cost: {header: x-cost}"),
		oneOf("overrun", "", "", "overrun: Debt"),
		oneOf("tiers", "", "", "tiers: [{name: a, when: {identifiers: [u1]}, limit: 4}]", "tiers: [{name: a, when: {identifiers: [u1]}, unlimited: true}]",
			"tiers: [{name: a, when: {header: {name: x-plan, value: paid}}, limit: 1}]"),
		oneOf("match", "", "", "match: {http: {paths: [{value: /a}]}}", "match: {http: {paths: [{value: /a/b}, {value: /a/c, type: Exact}]}}",
			"match: {http: {methods: [GET]}}", "match: {http: {hosts: [x.example]}}", `match: {http: {hosts: ["*.example"]}}`,
			"match: {http: {headers: [{name: x-plan, type: Present}]}}", "match: {http: {headers: [{name: x-plan, type: Present}], methods: [GET]}}",
			"match: {http: {cidrs: [10.0.0.0/8]}}", "match: {http: {cidrs: [10.0.0.0/16], exceptCIDRs: [10.0.1.0/24]}}",
			`match: {http: {expression: 'request.method == "GET"'}}`),
	}
	spec = slices.DeleteFunc(spec, func(part string) bool { return part == "" })
	if spec[0] == "axis: Endpoint" {
		spec = slices.DeleteFunc(spec, func(part string) bool { return part == "scope: Endpoint" })
	}
	return policytest.Policy(t, name, "{"+strings.Join(spec, ", ")+"}")
}

func drawRequest(t *rapid.T) rules.Request {
	oneOf := func(label string, values ...string) string { return rapid.SampledFrom(values).Draw(t, label) }
	headers := map[string]string{"x-user-id": oneOf("user", "u1", "u2", "u1")}
	if plan := oneOf("plan", "", "paid"); plan != "" {
		headers["x-plan"] = plan
	}
	if cost := oneOf("cost", "", "0", "2"); cost != "" {
		headers["x-cost"] = cost
	}
	return rules.Request{
		Domain: "shop", Method: oneOf("method", "GET", "POST"), Host: oneOf("host", "x.example", "y"), Path: oneOf("path", "/a", "/a/b", "/a/c", "/d"),
		Headers: headers, ClientIP: netip.MustParseAddr(oneOf("client", "10.0.0.1", "10.0.1.1", "192.0.2.1")),
	}
}

// drawPair draws two policies. They often differ in few fields.
func drawPair(t *rapid.T) (a, b policyapi.RateLimitPolicy) {
	a, b = drawPolicy(t, "a"), drawPolicy(t, "b")
	if rapid.IntRange(0, 2).Draw(t, "similar") == 0 {
		return a, b
	}
	other := b.Spec
	b.Spec = *a.Spec.DeepCopy()
	b.Spec.Limit, b.Spec.Tiers = other.Limit, other.Tiers
	if rapid.Bool().Draw(t, "on other requests") {
		b.Spec.Match = other.Match
	}
	if rapid.Bool().Draw(t, "at another cost") {
		b.Spec.Cost = other.Cost
	}
	return a, b
}

// TestIsRedundant_HoldsForEveryRequest applies both policies to the same requests.
func TestIsRedundant_HoldsForEveryRequest(t *testing.T) {
	redundant, denials := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		for range 10 { // few pairs are comparable
			a, b := drawPair(t)
			set, problems := compile.Compile([]policyapi.RateLimitPolicy{a, b}, testIdentity())
			if len(problems) == 0 && redundancy.IsRedundant(&set.Rules[0], &set.Rules[1]) {
				redundant++
				printIfFailed(t, compile.Policies{Namespaced: []policyapi.RateLimitPolicy{a, b}})
				denials += mustBeRedundant(t, set)
			}
		}
	})
	if redundant == 0 || denials == 0 {
		t.Errorf("%d redundant pairs and %d denials are too few for this test", redundant, denials)
	}
	t.Logf("%d pairs, %d denials by the stricter", redundant, denials)
}

// mustBeRedundant applies the rules a and b to requests. It fails the test if a denies a request that b allows. It returns the
// number of requests that b denied.
func mustBeRedundant(t *rapid.T, set rules.Set) (denials int) {
	now := time.Unix(1_800_000_000, 0)
	store := memstore.New(func() time.Time { return now })
	metrics := engine.NewMetrics(prometheus.NewRegistry())
	e := engine.New(store, engine.SourceMemory, metrics)
	index, err := matching.NewIndex(set, "sha256:any", "weir:", matching.WithHashKey(testHashKey()))
	if err != nil {
		t.Fatal(err)
	}
	e.Swap(index)
	for range 60 {
		now = now.Add(time.Duration(rapid.SampledFrom([]int{0, 1, 100_000, 300_000, 900_000, 1_000_000}).Draw(t, "µs later")) * time.Microsecond)
		check := engine.Check{Request: drawRequest(t), Cost: 1, NoDelay: rapid.Bool().Draw(t, "no delay")}
		answer, err := e.Check(t.Context(), &check)
		if err != nil {
			t.Fatal(err)
		}
		allowed := map[string]bool{"shop/a": true, "shop/b": true}
		for _, r := range answer.Results {
			allowed[r.Rule.Policy] = r.Allowed
		}
		if !allowed["shop/b"] {
			denials++
		} else if !allowed["shop/a"] {
			t.Fatalf("at %v, %+v: a denies and b does not", now, check.Request)
		}
	}
	return denials
}
