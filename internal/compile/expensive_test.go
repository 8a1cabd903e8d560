package compile_test

import (
	"strings"
	"testing"

	"github.com/weir-dev/weir/api/v1alpha1/policyapi"
	"github.com/weir-dev/weir/internal/compile"
)

// TestCompile_RejectsExpensiveExpressionsInEveryField covers weir lint, the webhook and the condition Accepted: all report the problems of Compile.
func TestCompile_RejectsExpensiveExpressionsInEveryField(t *testing.T) {
	const format, double = `"%s".format([request == request])`, `[[1]].map(x, x + x).map(x, x + x)[0][0]`
	json := strings.Repeat("json.encode(", 27) + "request" + strings.Repeat(")", 27)
	limit := int64(5)
	fields := map[string]func(*policyapi.RateLimitPolicySpec, *policyapi.Expression){
		"spec.match.http.expression": func(s *policyapi.RateLimitPolicySpec, e *policyapi.Expression) {
			s.Match = &policyapi.Match{HTTP: &policyapi.HTTPMatch{Expression: e}}
		},
		"spec.match.kubernetes.expression": func(s *policyapi.RateLimitPolicySpec, e *policyapi.Expression) {
			s.Axis = policyapi.AxisNamespace
			s.Match = &policyapi.Match{Kubernetes: &policyapi.KubernetesMatch{
				Resources: []policyapi.KubernetesResources{{APIGroups: []policyapi.APIGroup{""}, Resources: []policyapi.ResourceName{"pods"}}}, Expression: e,
			}}
		},
		"spec.identifier.expression": func(s *policyapi.RateLimitPolicySpec, e *policyapi.Expression) {
			s.Identifier = &policyapi.Identifier{IdentifierSource: policyapi.IdentifierSource{Expression: e}}
		},
		"spec.cost.expression": func(s *policyapi.RateLimitPolicySpec, e *policyapi.Expression) {
			s.Cost = &policyapi.Cost{Expression: e}
		},
		"spec.tiers[0].when.expression": func(s *policyapi.RateLimitPolicySpec, e *policyapi.Expression) {
			s.Tiers = []policyapi.Tier{{Name: "a", Limit: &limit, When: policyapi.When{Expression: e}}}
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
			policy := policyapi.RateLimitPolicy{}
			policy.Namespace, policy.Name = "shop", "a"
			policy.Spec = policyapi.RateLimitPolicySpec{Axis: policyapi.AxisUser, Limit: new(int64(10)), Window: "1m"}
			set(&policy.Spec, new(policyapi.Expression(strings.ReplaceAll(wraps[field], "X", text))))
			_, problems := compile.Compile([]policyapi.RateLimitPolicy{policy}, testIdentity())
			if len(problems) != 1 || problems[0].Field != field || !strings.Contains(problems[0].Message, want) {
				t.Errorf("%s: %v, want a problem with %q", field, problems, want)
			}
		}
	}
}
