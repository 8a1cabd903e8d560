package compile_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weir-dev/weir/api/v1alpha1/policyapi"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/limiter/rules"
)

func namespaces() []compile.Namespace {
	return []compile.Namespace{
		{Name: "shop", Labels: map[string]string{"plan": "free", "tenant": "acme", "colour": "blue"}, Annotations: map[string]string{"owner": "globex"}},
		{Name: "bank", Labels: map[string]string{"tenant": "bank"}, Annotations: map[string]string{"owner": strings.Repeat("x", 254)}},
		{Name: "search", Labels: map[string]string{"plan": "paid"}, Annotations: map[string]string{"owner": strings.Repeat("y", 253)}},
		{Name: "forum"},
	}
}

func TestCompile_ReturnsOnlyTheNamespacePropertiesThatRulesRead(t *testing.T) {
	selecting := func(selector policyapi.LabelSelector) func(*policyapi.RateLimitPolicySpec) {
		return func(s *policyapi.RateLimitPolicySpec) { s.Match.Kubernetes.NamespaceSelector = &selector }
	}
	for name, tc := range map[string]struct {
		policy   policyapi.ClusterRateLimitPolicy
		identity compile.Identity
		want     []rules.Namespace
	}{
		"no namespaces if no rule reads them":               {podCreationPolicy("a", "User", nil), compile.Identity{NamespaceLabel: "tenant"}, nil},
		"no namespaces if each namespace is its own tenant": {podCreationPolicy("a", "Tenant", nil), compile.Identity{}, nil},
		"the tenants that differ from the namespace name": {
			podCreationPolicy("a", "Tenant", nil), compile.Identity{NamespaceLabel: "tenant"}, []rules.Namespace{{Name: "shop", Tenant: "acme"}},
		},
		"the tenants from an annotation, if it is not too long": {
			podCreationPolicy("a", "Tenant", nil),
			compile.Identity{NamespaceAnnotation: "owner"},
			[]rules.Namespace{{Name: "search", Tenant: strings.Repeat("y", 253)}, {Name: "shop", Tenant: "globex"}},
		},
		"no tenants for a policy with another identifier": {
			podCreationPolicy("a", "Tenant", func(s *policyapi.RateLimitPolicySpec) {
				s.Identifier = &policyapi.Identifier{IdentifierSource: policyapi.IdentifierSource{Expression: new(policyapi.Expression("request.name"))}}
			}),
			compile.Identity{NamespaceLabel: "tenant"},
			nil,
		},
		"only the labels that the selector reads": {
			podCreationPolicy("a", "User", selecting(policyapi.LabelSelector{MatchLabels: map[string]string{"plan": "free"}})),
			compile.Identity{},
			[]rules.Namespace{{Name: "search", Labels: map[string]string{"plan": "paid"}}, {Name: "shop", Labels: map[string]string{"plan": "free"}}},
		},
		"the labels that a tier reads": {
			podCreationPolicy("a", "User", func(s *policyapi.RateLimitPolicySpec) {
				when := policyapi.When{NamespaceSelector: &policyapi.LabelSelector{MatchLabels: map[string]string{"colour": "blue"}}}
				s.Tiers = []policyapi.Tier{{Name: "blue", Unlimited: true, When: when}}
			}),
			compile.Identity{},
			[]rules.Namespace{{Name: "shop", Labels: map[string]string{"colour": "blue"}}},
		},
		"every namespace if a selector requires that a label is absent": {
			podCreationPolicy("a", "User", selecting(policyapi.LabelSelector{MatchExpressions: []policyapi.LabelSelectorRequirement{
				{Key: "colour", Operator: policyapi.LabelSelectorOpDoesNotExist},
			}})),
			compile.Identity{},
			[]rules.Namespace{{Name: "bank"}, {Name: "forum"}, {Name: "search"}, {Name: "shop", Labels: map[string]string{"colour": "blue"}}},
		},
		"every namespace if a selector excludes a label value": {
			podCreationPolicy("a", "User", selecting(policyapi.LabelSelector{MatchExpressions: []policyapi.LabelSelectorRequirement{
				{Key: "plan", Operator: policyapi.LabelSelectorOpNotIn, Values: []string{"free"}},
			}})),
			compile.Identity{},
			[]rules.Namespace{
				{Name: "bank"}, {Name: "forum"}, {Name: "search", Labels: map[string]string{"plan": "paid"}}, {Name: "shop", Labels: map[string]string{"plan": "free"}},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			policies := compile.Policies{Cluster: []policyapi.ClusterRateLimitPolicy{tc.policy}, Namespaces: namespaces()}
			result := policies.Compile(tc.identity)
			if len(result.Problems) > 0 {
				t.Fatal(result.Problems)
			}
			if diff := cmp.Diff(tc.want, result.Set.Namespaces); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestCompile_ReturnsTheNamespacePropertiesOfAllPolicies compiles policies that read different properties, in every order: the order of
// the names decides the order of the rules.
func TestCompile_ReturnsTheNamespacePropertiesOfAllPolicies(t *testing.T) {
	specs := map[string]func(*policyapi.RateLimitPolicySpec){
		"HTTP requests": func(s *policyapi.RateLimitPolicySpec) { s.Match = nil },
		"tenants":       func(s *policyapi.RateLimitPolicySpec) { s.Axis = policyapi.AxisTenant },
		"a label": func(s *policyapi.RateLimitPolicySpec) {
			s.Match.Kubernetes.NamespaceSelector = &policyapi.LabelSelector{MatchLabels: map[string]string{"plan": "free"}}
		},
		"an absent label": func(s *policyapi.RateLimitPolicySpec) {
			s.Match.Kubernetes.NamespaceSelector = &policyapi.LabelSelector{MatchExpressions: []policyapi.LabelSelectorRequirement{
				{Key: "colour", Operator: policyapi.LabelSelectorOpDoesNotExist},
			}}
		},
	}
	want := []rules.Namespace{
		{Name: "bank"},
		{Name: "forum"},
		{Name: "search", Labels: map[string]string{"plan": "paid"}},
		{Name: "shop", Labels: map[string]string{"plan": "free", "colour": "blue"}, Tenant: "acme"},
	}
	rapid.Check(t, func(t *rapid.T) {
		policies := compile.Policies{Namespaces: namespaces()}
		for i, reads := range rapid.Permutation(slices.Sorted(maps.Keys(specs))).Draw(t, "order") {
			policies.Cluster = append(policies.Cluster, podCreationPolicy(string(rune('a'+i)), "User", specs[reads]))
		}
		result := policies.Compile(compile.Identity{NamespaceLabel: "tenant"})
		if diff := cmp.Diff(want, result.Set.Namespaces); diff != "" || len(result.Problems) > 0 {
			t.Errorf("problems %v, (-want +got):\n%s", result.Problems, diff)
		}
	})
}

func TestCompile_ChangesTheRevisionOnlyWithNamespacePropertiesThatRulesRead(t *testing.T) {
	identity := compile.Identity{NamespaceLabel: "tenant"}
	revision := func(change func([]compile.Namespace) []compile.Namespace, policies ...policyapi.ClusterRateLimitPolicy) string {
		all := compile.Policies{Cluster: policies, Namespaces: change(namespaces())}
		_, revision := rules.Encode(all.Compile(identity).Set)
		return revision
	}
	unchanged := func(all []compile.Namespace) []compile.Namespace { return all }
	changeUnread := func(all []compile.Namespace) []compile.Namespace {
		all[0].Labels["colour"], all[0].Annotations["owner"] = "red", "initech"
		return append(all[:3], compile.Namespace{Name: "new", Labels: map[string]string{"team": "web"}})
	}
	changeTenant := func(all []compile.Namespace) []compile.Namespace {
		all[0].Labels["tenant"] = "initech"
		return all
	}
	changeOrder := func(all []compile.Namespace) []compile.Namespace {
		all[0], all[3] = all[3], all[0]
		return all
	}
	tenants, httpRequests := podCreationPolicy("tenants", "Tenant", nil), podCreationPolicy("requests", "Tenant", func(s *policyapi.RateLimitPolicySpec) { s.Match = nil })
	if revision(unchanged, tenants) != revision(changeUnread, tenants) || revision(unchanged, tenants) != revision(changeOrder, tenants) {
		t.Error("the revision changes with properties that no rule reads, or with the order of namespaces")
	}
	if revision(unchanged, tenants) == revision(changeTenant, tenants) {
		t.Error("the revision stays the same when a namespace changes its tenant")
	}
	if revision(unchanged, httpRequests) != revision(changeTenant, httpRequests) {
		t.Error("the revision of policies for HTTP requests changes with namespaces")
	}
}
