package compile_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/compile/budget"
)

// policyOf returns a policy that is that many minutes old.
func policyOf(namespace, name string, age int) v1alpha1.RateLimitPolicy {
	created := time.Unix(1_800_000_000, 0).Add(-time.Duration(age) * time.Minute)
	return v1alpha1.RateLimitPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, CreationTimestamp: metav1.NewTime(created)},
		Spec:       v1alpha1.RateLimitPolicySpec{Axis: v1alpha1.AxisTenant, Limit: new(int64(100)), Window: "1m", Algorithm: v1alpha1.SlidingWindowCounter},
	}
}

// withIdentifiers adds 16 tiers of 256 identifiers of 200 characters.
func withIdentifiers(p v1alpha1.RateLimitPolicy) v1alpha1.RateLimitPolicy {
	for tier := range 16 {
		var identifiers []v1alpha1.TierIdentifier
		for i := range 256 {
			identifiers = append(identifiers, v1alpha1.TierIdentifier(fmt.Sprintf("%0200d", tier*256+i)))
		}
		p.Spec.Tiers = append(p.Spec.Tiers, v1alpha1.Tier{Name: fmt.Sprintf("t%d", tier), When: v1alpha1.When{Identifiers: identifiers}, Limit: new(int64(1))})
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
	policies := compile.Policies{Namespaced: []v1alpha1.RateLimitPolicy{
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
	cluster := v1alpha1.ClusterRateLimitPolicy{ObjectMeta: metav1.ObjectMeta{Name: "all", CreationTimestamp: metav1.NewTime(time.Unix(1_900_000_000, 0))}}
	one := policyOf("", "", 0)
	cluster.Spec.RateLimitPolicySpec = one.Spec
	expression := func(p v1alpha1.RateLimitPolicy) v1alpha1.RateLimitPolicy {
		p.Spec.Match = &v1alpha1.Match{HTTP: &v1alpha1.HTTPMatch{
			Expression: new(v1alpha1.Expression(`request.method == "GET"`)),
			Paths:      []v1alpha1.PathMatch{{Type: v1alpha1.PathRegularExpression, Value: "/v[0-9]+"}},
		}}
		return p
	}
	tests := map[string]struct {
		policies []v1alpha1.RateLimitPolicy
		budget   budget.Budget
		want     []string // rules
		message  string   // of the first problem
	}{
		"rules of a namespace": {
			[]v1alpha1.RateLimitPolicy{policyOf("a", "young", 1), policyOf("a", "old", 3), policyOf("b", "other", 0), policyOf("a", "middle", 2)},
			budget.Budget{PerNamespace: budget.Usage{Rules: 2}},
			[]string{"_cluster/all", "a/middle", "a/old", "b/other"},
			"over the policy budget of the Limiter: this policy needs 1 rules, and the older policies of namespace a leave less of 2: " +
				"shorten or delete policies, or raise spec.policyBudget.perNamespace.rules of the Limiter",
		},
		"rules in total, of the same age": {
			[]v1alpha1.RateLimitPolicy{policyOf("c", "x", 1), policyOf("a", "x", 1), policyOf("b", "x", 1)},
			budget.Budget{Total: budget.Usage{Rules: 3}},
			[]string{"_cluster/all", "a/x", "b/x"},
			"over the policy budget of the Limiter: this policy needs 1 rules, and the policies that take precedence leave less of 3: " +
				"shorten or delete policies, or raise spec.policyBudget.total.rules of the Limiter",
		},
		"expressions": {
			[]v1alpha1.RateLimitPolicy{expression(policyOf("a", "x", 1)), expression(policyOf("a", "y", 2)), policyOf("a", "z", 0)},
			budget.Budget{PerNamespace: budget.Usage{Expressions: 1}},
			[]string{"_cluster/all", "a/y", "a/z"},
			"over the policy budget of the Limiter: this policy needs 1 expressions, and the older policies of namespace a leave less of 1: " +
				"shorten or delete policies, or raise spec.policyBudget.perNamespace.expressions of the Limiter",
		},
		"regular expressions": {
			[]v1alpha1.RateLimitPolicy{expression(policyOf("a", "x", 1)), expression(policyOf("b", "y", 2))},
			budget.Budget{Total: budget.Usage{RegularExpressions: 1}},
			[]string{"_cluster/all", "b/y"},
			"over the policy budget of the Limiter: this policy needs 1 regularExpressions, and the policies that take precedence leave less of 1: " +
				"shorten or delete policies, or raise spec.policyBudget.total.regularExpressions of the Limiter",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			for range 2 { // in any order
				p := compile.Policies{Namespaced: test.policies, Cluster: []v1alpha1.ClusterRateLimitPolicy{cluster}}
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

func TestForLimiter_ReplacesMissingLimitsByDefaults(t *testing.T) {
	spec := v1alpha1.LimiterSpec{PolicyBudget: v1alpha1.PolicyBudget{Total: v1alpha1.BudgetLimits{Rules: new(int64(7))}}}
	want := budget.Budget{
		PerNamespace: budget.Usage{Bytes: 524288, Rules: 1000, Expressions: 100, RegularExpressions: 100},
		Total:        budget.Usage{Bytes: 8388608, Rules: 7, Expressions: 2000, RegularExpressions: 2000},
	}
	if diff := cmp.Diff(want, budget.ForLimiter(&spec)); diff != "" {
		t.Errorf("budget (-want +got):\n%s", diff)
	}
	limits := func(from int64) v1alpha1.BudgetLimits {
		return v1alpha1.BudgetLimits{Bytes: new(from), Rules: new(from + 1), Expressions: new(from + 2), RegularExpressions: new(from + 3)}
	}
	spec.PolicyBudget = v1alpha1.PolicyBudget{PerNamespace: limits(10), Total: limits(20)}
	want = budget.Budget{
		PerNamespace: budget.Usage{Bytes: 10, Rules: 11, Expressions: 12, RegularExpressions: 13},
		Total:        budget.Usage{Bytes: 20, Rules: 21, Expressions: 22, RegularExpressions: 23},
	}
	if diff := cmp.Diff(want, budget.ForLimiter(&spec)); diff != "" {
		t.Errorf("budget with all limits (-want +got):\n%s", diff)
	}
}

func TestUsage_CountsEachExpression(t *testing.T) {
	expression := new(v1alpha1.Expression(`request.method == "GET"`))
	regex := v1alpha1.HeaderMatch{Name: "x", Type: v1alpha1.HeaderRegularExpression, Value: new("a+")}
	exact := v1alpha1.HeaderMatch{Name: "x", Type: v1alpha1.HeaderExact, Value: new("a")}
	http := func(m v1alpha1.HTTPMatch) func(*v1alpha1.RateLimitPolicySpec) {
		return func(s *v1alpha1.RateLimitPolicySpec) { s.Match = &v1alpha1.Match{HTTP: &m} }
	}
	tier := func(when v1alpha1.When) func(*v1alpha1.RateLimitPolicySpec) {
		return func(s *v1alpha1.RateLimitPolicySpec) {
			s.Tiers = []v1alpha1.Tier{{Name: "t", When: when, Limit: new(int64(1))}}
		}
	}
	for name, test := range map[string]struct {
		change                          func(*v1alpha1.RateLimitPolicySpec)
		expressions, regularExpressions int64
	}{
		"nothing": {func(*v1alpha1.RateLimitPolicySpec) {}, 0, 0},
		"match":   {http(v1alpha1.HTTPMatch{Expression: expression}), 1, 0},
		"three calls of matches": {http(v1alpha1.HTTPMatch{Expression: new(v1alpha1.Expression(
			"request.path.matches('a') || matches(request.host, 'b') || request.path.matches ('d')"))}), 1, 3},
		"two regular headers": {http(v1alpha1.HTTPMatch{Headers: []v1alpha1.HeaderMatch{regex, exact, {Name: "y", Type: v1alpha1.HeaderRegularExpression, Value: new("b+")}}}), 0, 2},
		"a path":              {http(v1alpha1.HTTPMatch{Paths: []v1alpha1.PathMatch{{Type: v1alpha1.PathRegularExpression, Value: "/a+"}, {Type: v1alpha1.PathExact, Value: "/b"}}}), 0, 1},
		"identifier": {func(s *v1alpha1.RateLimitPolicySpec) {
			s.Identifier = &v1alpha1.Identifier{IdentifierSource: v1alpha1.IdentifierSource{Expression: new(v1alpha1.Expression("request.host"))}}
		}, 1, 0},
		"cost": {func(s *v1alpha1.RateLimitPolicySpec) {
			s.Cost = &v1alpha1.Cost{Expression: new(v1alpha1.Expression("2"))}
		}, 1, 0},
		"a cost without any":    {func(s *v1alpha1.RateLimitPolicySpec) { s.Cost = &v1alpha1.Cost{Value: new(int64(2))} }, 0, 0},
		"tier":                  {tier(v1alpha1.When{Expression: expression}), 1, 0},
		"header of a tier":      {tier(v1alpha1.When{Header: &regex}), 0, 1},
		"exact value of a tier": {tier(v1alpha1.When{Header: &exact}), 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			policy := policyOf("shop", "x", 1)
			test.change(&policy.Spec)
			got := compile.Policies{Namespaced: []v1alpha1.RateLimitPolicy{policy}}.Usage(compile.DefaultIdentity())
			if got.Rules != 1 || got.Bytes < 100 || got.Bytes > 500 || got.Expressions != test.expressions || got.RegularExpressions != test.regularExpressions {
				t.Errorf("%+v, want one rule, %d expressions and %d regular ones", got, test.expressions, test.regularExpressions)
			}
		})
	}
}

func TestCompileWithin_SortsProblemsByPolicy(t *testing.T) {
	invalid := policyOf("m", "invalid", 1)
	invalid.Spec.Window = "1 week"
	policies := compile.Policies{Namespaced: []v1alpha1.RateLimitPolicy{policyOf("z", "over", 1), invalid, policyOf("a", "over", 1), policyOf("k", "kept", 9)}}
	var got []string
	for _, p := range policies.CompileWithin(compile.DefaultIdentity(), budget.Budget{Total: budget.Usage{Rules: 1}}).Problems {
		got = append(got, p.Policy+" "+p.Reason)
	}
	if diff := cmp.Diff([]string{"a/over OverBudget", "m/invalid Invalid", "z/over OverBudget"}, got); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}
