package policy

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/test/fixture"
)

// limiterWith returns a Limiter whose budget admits that many policies in a namespace and in total.
func limiterWith(name string, perNamespace, total int64) v1alpha1.Limiter {
	l := v1alpha1.Limiter{ObjectMeta: metav1.ObjectMeta{Namespace: "weir", Name: name}}
	l.Spec.PolicyBudget.PerNamespace.Rules, l.Spec.PolicyBudget.Total.Rules = &perNamespace, &total
	return l
}

func TestValidateCreate_RejectsAPolicyOverTheBudgetOfEveryLimiter(t *testing.T) {
	a, b, c := fixture.Policy(t, "a", validSpec), fixture.Policy(t, "b", `{axis: Tenant, limit: 10, window: 1m}`), fixture.Policy(t, "c", `{axis: IP, limit: 10, window: 1m}`)
	other := fixture.Policy(t, "other", validSpec)
	other.Namespace = "elsewhere"
	elsewhere := limiterWith("elsewhere", 1, 1)
	elsewhere.Spec.PolicySelector = &v1alpha1.LabelSelector{MatchLabels: map[string]v1alpha1.LabelValue{"at": "elsewhere"}}
	tests := map[string]struct {
		limiters []v1alpha1.Limiter
		want     string // in the error; empty if the policy is accepted
		warning  string
	}{
		"without Limiters": {nil, "", ""},
		"with room":        {[]v1alpha1.Limiter{limiterWith("default", 3, 4)}, "", ""},
		"not selected":     {[]v1alpha1.Limiter{elsewhere}, "", ""},
		"over the budget of the namespace": {
			[]v1alpha1.Limiter{limiterWith("default", 2, 9), elsewhere},
			"spec: Invalid value: with this policy, namespace " + c.Namespace + " needs 3 rules, and the policy budget of Limiter weir/default is 2 (this policy: 1): " +
				"shorten or delete policies, or raise spec.policyBudget.perNamespace.rules of the Limiter", "",
		},
		"over the total": {
			[]v1alpha1.Limiter{limiterWith("default", 9, 3)},
			"spec: Invalid value: with this policy, all policies need 4 rules, and the policy budget of Limiter weir/default is 3 (this policy: 1): " +
				"shorten or delete policies, or raise spec.policyBudget.total.rules of the Limiter", "",
		},
		"over the budget of one of two": {
			[]v1alpha1.Limiter{limiterWith("default", 9, 9), limiterWith("staging", 2, 9)},
			"",
			"with this policy, namespace " + c.Namespace + " needs 3 rules, and the policy budget of Limiter weir/staging is 2",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			v := newValidator(stored{policies: []v1alpha1.RateLimitPolicy{a, b, other}, limiters: test.limiters})
			warnings, err := v.ValidateCreate(t.Context(), &c)
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("error %v, want %q", err, test.want)
			}
			if (test.warning == "") != (len(warnings) == 0) || test.warning != "" && !strings.HasPrefix(warnings[0], test.warning) {
				t.Errorf("warnings %q, want %q", warnings, test.warning)
			}
		})
	}

	// An edit of a stored policy that needs no more than before is accepted, whatever the others use.
	edited := a.DeepCopy()
	edited.Spec.Limit++
	v := newValidator(stored{policies: []v1alpha1.RateLimitPolicy{a, b}, limiters: []v1alpha1.Limiter{limiterWith("default", 1, 1)}})
	if _, err := v.ValidateUpdate(t.Context(), &a, edited); err != nil {
		t.Errorf("an edit that needs no more: %v", err)
	}
}
