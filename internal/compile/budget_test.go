package compile_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-dev/weir/api/v1alpha1/policyapi"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/compile/budget"
)

// policyOf returns a policy that is that many minutes old.
func policyOf(namespace, name string, age int) policyapi.RateLimitPolicy {
	created := time.Unix(1_800_000_000, 0).Add(-time.Duration(age) * time.Minute)
	return policyapi.RateLimitPolicy{
		ObjectMeta: policyapi.ObjectMeta{Namespace: namespace, Name: name, CreationTimestamp: created},
		Spec:       policyapi.RateLimitPolicySpec{Axis: policyapi.AxisTenant, Limit: new(int64(100)), Window: "1m", Algorithm: policyapi.SlidingWindowCounter},
	}
}

// withIdentifiers adds 16 tiers of 256 identifiers of 200 characters.
func withIdentifiers(p policyapi.RateLimitPolicy) policyapi.RateLimitPolicy {
	for tier := range 16 {
		var identifiers []policyapi.TierIdentifier
		for i := range 256 {
			identifiers = append(identifiers, policyapi.TierIdentifier(fmt.Sprintf("%0200d", tier*256+i)))
		}
		p.Spec.Tiers = append(p.Spec.Tiers, policyapi.Tier{Name: fmt.Sprintf("t%d", tier), When: policyapi.When{Identifiers: identifiers}, Limit: new(int64(1))})
	}
	return p
}

func compiledNames(r compile.Result) (names []string) {
	for _, rule := range r.Set.Rules {
		names = append(names, rule.Policy)
	}
	return names
}

func TestCompileWithin_OneNamespaceLeavesRoomForTheOthers(t *testing.T) {
	policies := compile.Policies{Namespaced: []policyapi.RateLimitPolicy{
		withIdentifiers(policyOf("greedy", "large", 9)), policyOf("greedy", "small", 8), policyOf("shop", "daily", 1),
	}}
	result := policies.CompileWithin(compile.DefaultIdentity(), budget.Default())
	if diff := cmp.Diff([]string{"greedy/small", "shop/daily"}, compiledNames(result)); diff != "" {
		t.Errorf("rules (-want +got):\n%s", diff)
	}
	const want = "over the policy budget of the Limiter: this policy needs 832"
	if len(result.Problems) != 1 || result.Problems[0].Policy != "greedy/large" || result.Problems[0].Reason != "OverBudget" ||
		!strings.HasPrefix(result.Problems[0].Message, want) || !strings.Contains(result.Problems[0].Message, " leave less of 524288: ") {
		t.Errorf("problems %v", result.Problems)
	}
}

func TestCompileWithin_KeepsClusterPoliciesAndTheOldestOnes(t *testing.T) {
	cluster := policyapi.ClusterRateLimitPolicy{ObjectMeta: policyapi.ObjectMeta{Name: "all", CreationTimestamp: time.Unix(1_900_000_000, 0)}}
	one := policyOf("", "", 0)
	cluster.Spec.RateLimitPolicySpec = one.Spec
	expression := func(p policyapi.RateLimitPolicy) policyapi.RateLimitPolicy {
		p.Spec.Match = &policyapi.Match{HTTP: &policyapi.HTTPMatch{
			Expression: new(policyapi.Expression(`request.method == "GET"`)),
			Paths:      []policyapi.PathMatch{{Type: policyapi.PathRegularExpression, Value: "/v[0-9]+"}},
		}}
		return p
	}
	tests := map[string]struct {
		policies []policyapi.RateLimitPolicy
		budget   budget.Budget
		want     []string // rules
		message  string   // of the first problem
	}{
		"rules of a namespace": {
			[]policyapi.RateLimitPolicy{policyOf("a", "young", 1), policyOf("a", "old", 3), policyOf("b", "other", 0), policyOf("a", "middle", 2)},
			budget.Budget{PerNamespace: budget.Usage{Rules: 2}},
			[]string{"_cluster/all", "a/middle", "a/old", "b/other"},
			"over the policy budget of the Limiter: this policy needs 1 rules, and the older policies of namespace a leave less of 2: " +
				"shorten or delete policies, or raise spec.policyBudget.perNamespace.rules of the Limiter",
		},
		"rules in total, of the same age": {
			[]policyapi.RateLimitPolicy{policyOf("c", "x", 1), policyOf("a", "x", 1), policyOf("b", "x", 1)},
			budget.Budget{Total: budget.Usage{Rules: 3}},
			[]string{"_cluster/all", "a/x", "b/x"},
			"over the policy budget of the Limiter: this policy needs 1 rules, and the policies that take precedence leave less of 3: " +
				"shorten or delete policies, or raise spec.policyBudget.total.rules of the Limiter",
		},
		"expressions": {
			[]policyapi.RateLimitPolicy{expression(policyOf("a", "x", 1)), expression(policyOf("a", "y", 2)), policyOf("a", "z", 0)},
			budget.Budget{PerNamespace: budget.Usage{Expressions: 1}},
			[]string{"_cluster/all", "a/y", "a/z"},
			"over the policy budget of the Limiter: this policy needs 1 expressions, and the older policies of namespace a leave less of 1: " +
				"shorten or delete policies, or raise spec.policyBudget.perNamespace.expressions of the Limiter",
		},
		"regular expressions": {
			[]policyapi.RateLimitPolicy{expression(policyOf("a", "x", 1)), expression(policyOf("b", "y", 2))},
			budget.Budget{Total: budget.Usage{RegularExpressions: 1}},
			[]string{"_cluster/all", "b/y"},
			"over the policy budget of the Limiter: this policy needs 1 regularExpressions, and the policies that take precedence leave less of 1: " +
				"shorten or delete policies, or raise spec.policyBudget.total.regularExpressions of the Limiter",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			for range 2 { // in any order
				p := compile.Policies{Namespaced: test.policies, Cluster: []policyapi.ClusterRateLimitPolicy{cluster}}
				result := p.CompileWithin(compile.DefaultIdentity(), test.budget)
				if diff := cmp.Diff(test.want, compiledNames(result)); diff != "" {
					t.Errorf("rules (-want +got):\n%s", diff)
				}
				if len(result.Problems) != 1 || result.Problems[0].Message != test.message {
					t.Errorf("problems %v", result.Problems)
				}
				slices.Reverse(test.policies)
			}
		})
	}
}

func TestUsage_CountsEachExpression(t *testing.T) {
	expression := new(policyapi.Expression(`request.method == "GET"`))
	regex := policyapi.HeaderMatch{Name: "x", Type: policyapi.HeaderRegularExpression, Value: new("a+")}
	exact := policyapi.HeaderMatch{Name: "x", Type: policyapi.HeaderExact, Value: new("a")}
	http := func(m policyapi.HTTPMatch) func(*policyapi.RateLimitPolicySpec) {
		return func(s *policyapi.RateLimitPolicySpec) { s.Match = &policyapi.Match{HTTP: &m} }
	}
	tier := func(when policyapi.When) func(*policyapi.RateLimitPolicySpec) {
		return func(s *policyapi.RateLimitPolicySpec) {
			s.Tiers = []policyapi.Tier{{Name: "t", When: when, Limit: new(int64(1))}}
		}
	}
	for name, test := range map[string]struct {
		change                          func(*policyapi.RateLimitPolicySpec)
		expressions, regularExpressions int64
	}{
		"nothing": {func(*policyapi.RateLimitPolicySpec) {}, 0, 0},
		"match":   {http(policyapi.HTTPMatch{Expression: expression}), 1, 0},
		"three calls of matches": {http(policyapi.HTTPMatch{Expression: new(policyapi.Expression(
			"request.path.matches('a') || matches(request.host, 'b') || request.path.matches ('d')"))}), 1, 3},
		"two regular headers": {http(policyapi.HTTPMatch{Headers: []policyapi.HeaderMatch{regex, exact, {Name: "y", Type: policyapi.HeaderRegularExpression, Value: new("b+")}}}), 0, 2},
		"a path":              {http(policyapi.HTTPMatch{Paths: []policyapi.PathMatch{{Type: policyapi.PathRegularExpression, Value: "/a+"}, {Type: policyapi.PathExact, Value: "/b"}}}), 0, 1},
		"identifier": {func(s *policyapi.RateLimitPolicySpec) {
			s.Identifier = &policyapi.Identifier{IdentifierSource: policyapi.IdentifierSource{Expression: new(policyapi.Expression("request.host"))}}
		}, 1, 0},
		"cost": {func(s *policyapi.RateLimitPolicySpec) {
			s.Cost = &policyapi.Cost{Expression: new(policyapi.Expression("2"))}
		}, 1, 0},
		"a cost without any":    {func(s *policyapi.RateLimitPolicySpec) { s.Cost = &policyapi.Cost{Value: new(int64(2))} }, 0, 0},
		"tier":                  {tier(policyapi.When{Expression: expression}), 1, 0},
		"header of a tier":      {tier(policyapi.When{Header: &regex}), 0, 1},
		"exact value of a tier": {tier(policyapi.When{Header: &exact}), 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			policy := policyOf("shop", "x", 1)
			test.change(&policy.Spec)
			got := compile.Policies{Namespaced: []policyapi.RateLimitPolicy{policy}}.Usage(compile.DefaultIdentity())
			if got.Rules != 1 || got.Bytes < 100 || got.Bytes > 500 || got.Expressions != test.expressions || got.RegularExpressions != test.regularExpressions {
				t.Errorf("%+v, want one rule, %d expressions and %d regular ones", got, test.expressions, test.regularExpressions)
			}
		})
	}
}

func TestCompileWithin_SortsProblemsByPolicy(t *testing.T) {
	invalid := policyOf("m", "invalid", 1)
	invalid.Spec.Window = "1 week"
	policies := compile.Policies{Namespaced: []policyapi.RateLimitPolicy{policyOf("z", "over", 1), invalid, policyOf("a", "over", 1), policyOf("k", "kept", 9)}}
	var got []string
	for _, p := range policies.CompileWithin(compile.DefaultIdentity(), budget.Budget{Total: budget.Usage{Rules: 1}}).Problems {
		got = append(got, p.Policy+" "+p.Reason)
	}
	if diff := cmp.Diff([]string{"a/over OverBudget", "m/invalid Invalid", "z/over OverBudget"}, got); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}
