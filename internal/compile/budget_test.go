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
)

// policyOf returns a policy that is that many minutes old.
func policyOf(namespace, name string, age int) v1alpha1.RateLimitPolicy {
	created := time.Unix(1_800_000_000, 0).Add(-time.Duration(age) * time.Minute)
	return v1alpha1.RateLimitPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, CreationTimestamp: metav1.NewTime(created)},
		Spec:       v1alpha1.RateLimitPolicySpec{Axis: v1alpha1.AxisTenant, Limit: 100, Window: "1m", Algorithm: v1alpha1.SlidingWindowCounter},
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
	result := policies.CompileWithin(compile.DefaultIdentity(), compile.DefaultBudget())
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
		budget   compile.Budget
		want     []string // rules
		message  string   // of the first problem
	}{
		"rules of a namespace": {
			[]v1alpha1.RateLimitPolicy{policyOf("a", "young", 1), policyOf("a", "old", 3), policyOf("b", "other", 0), policyOf("a", "middle", 2)},
			compile.Budget{PerNamespace: compile.Usage{Rules: 2}},
			[]string{"a/middle", "a/old", "b/other", "cluster/all"},
			"over the policy budget of the Limiter: this policy needs 1 rules, and the older policies of namespace a leave less of 2: " +
				"shorten or delete policies, or raise spec.policyBudget.perNamespace.rules of the Limiter",
		},
		"rules in total, of the same age": {
			[]v1alpha1.RateLimitPolicy{policyOf("c", "x", 1), policyOf("a", "x", 1), policyOf("b", "x", 1)},
			compile.Budget{Total: compile.Usage{Rules: 3}},
			[]string{"a/x", "b/x", "cluster/all"},
			"over the policy budget of the Limiter: this policy needs 1 rules, and the policies that take precedence leave less of 3: " +
				"shorten or delete policies, or raise spec.policyBudget.total.rules of the Limiter",
		},
		"expressions": {
			[]v1alpha1.RateLimitPolicy{expression(policyOf("a", "x", 1)), expression(policyOf("a", "y", 2)), policyOf("a", "z", 0)},
			compile.Budget{PerNamespace: compile.Usage{Expressions: 1}},
			[]string{"a/y", "a/z", "cluster/all"},
			"over the policy budget of the Limiter: this policy needs 1 expressions, and the older policies of namespace a leave less of 1: " +
				"shorten or delete policies, or raise spec.policyBudget.perNamespace.expressions of the Limiter",
		},
		"regular expressions": {
			[]v1alpha1.RateLimitPolicy{expression(policyOf("a", "x", 1)), expression(policyOf("b", "y", 2))},
			compile.Budget{Total: compile.Usage{RegularExpressions: 1}},
			[]string{"b/y", "cluster/all"},
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

func TestBudgetOf_ReplacesMissingLimitsByDefaults(t *testing.T) {
	spec := v1alpha1.LimiterSpec{PolicyBudget: v1alpha1.PolicyBudget{Total: v1alpha1.BudgetLimits{Rules: new(int64(7))}}}
	want := compile.Budget{
		PerNamespace: compile.Usage{Bytes: 524288, Rules: 1000, Expressions: 100, RegularExpressions: 100},
		Total:        compile.Usage{Bytes: 8388608, Rules: 7, Expressions: 2000, RegularExpressions: 2000},
	}
	if diff := cmp.Diff(want, compile.BudgetOf(&spec)); diff != "" {
		t.Errorf("budget (-want +got):\n%s", diff)
	}
}
