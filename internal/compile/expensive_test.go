package compile_test

import (
	"strings"
	"testing"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
)

// TestCompile_RejectsExpensiveExpressionsInEveryField covers weir lint, the webhook and the condition Accepted: all report the problems of Compile.
func TestCompile_RejectsExpensiveExpressionsInEveryField(t *testing.T) {
	const format, double = `"%s".format([request == request])`, `[[1]].map(x, x + x).map(x, x + x)[0][0]`
	json := strings.Repeat("json.encode(", 27) + "request" + strings.Repeat(")", 27)
	limit := int64(5)
	fields := map[string]func(*v1alpha1.RateLimitPolicySpec, *v1alpha1.Expression){
		"spec.match.http.expression": func(s *v1alpha1.RateLimitPolicySpec, e *v1alpha1.Expression) {
			s.Match = &v1alpha1.Match{HTTP: &v1alpha1.HTTPMatch{Expression: e}}
		},
		"spec.match.kubernetes.expression": func(s *v1alpha1.RateLimitPolicySpec, e *v1alpha1.Expression) {
			s.Axis = v1alpha1.AxisNamespace
			s.Match = &v1alpha1.Match{Kubernetes: &v1alpha1.KubernetesMatch{
				Resources: []v1alpha1.KubernetesResources{{APIGroups: []v1alpha1.APIGroup{""}, Resources: []v1alpha1.ResourceName{"pods"}}}, Expression: e,
			}}
		},
		"spec.identifier.expression": func(s *v1alpha1.RateLimitPolicySpec, e *v1alpha1.Expression) {
			s.Identifier = &v1alpha1.Identifier{IdentifierSource: v1alpha1.IdentifierSource{Expression: e}}
		},
		"spec.cost.expression": func(s *v1alpha1.RateLimitPolicySpec, e *v1alpha1.Expression) { s.Cost = &v1alpha1.Cost{Expression: e} },
		"spec.tiers[0].when.expression": func(s *v1alpha1.RateLimitPolicySpec, e *v1alpha1.Expression) {
			s.Tiers = []v1alpha1.Tier{{Name: "a", Limit: &limit, When: v1alpha1.When{Expression: e}}}
		},
	}
	wraps := map[string]string{
		"spec.match.http.expression": "size(string(dyn(X))) > 1", "spec.match.kubernetes.expression": "size(string(dyn(X))) > 1",
		"spec.identifier.expression": "string(dyn(X))", "spec.cost.expression": "size(string(dyn(X)))", "spec.tiers[0].when.expression": "size(string(dyn(X))) > 1",
	}
	for field, set := range fields {
		for text, want := range map[string]string{
			format: "the function format must not be called", json: "the function json.encode must not be called", double: "lists must not be added",
		} {
			policy := v1alpha1.RateLimitPolicy{}
			policy.Namespace, policy.Name = "shop", "a"
			policy.Spec = v1alpha1.RateLimitPolicySpec{Axis: v1alpha1.AxisUser, Limit: new(int64(10)), Window: "1m"}
			set(&policy.Spec, new(v1alpha1.Expression(strings.ReplaceAll(wraps[field], "X", text))))
			_, problems := compile.Compile([]v1alpha1.RateLimitPolicy{policy}, testIdentity())
			if len(problems) != 1 || problems[0].Field != field || !strings.Contains(problems[0].Message, want) {
				t.Errorf("%s: %v, want a problem with %q", field, problems, want)
			}
		}
	}
}
