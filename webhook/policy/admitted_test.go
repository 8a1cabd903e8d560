package policy

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/test/fixture/policytest"
)

func TestValidateCreate_WarnsOfAPolicyForWritesThatNoLimiterAdmits(t *testing.T) {
	const writes = `{axis: User, limit: 10, window: 1m, match: {kubernetes: {resources: [{apiGroups: [""], resources: [pods]}]}}}`
	limiter := func(change func(*v1alpha1.LimiterSpec)) (l v1alpha1.Limiter) {
		l.Spec.KubernetesThrottle = &v1alpha1.KubernetesThrottle{}
		change(&l.Spec)
		return l
	}
	selecting := func(team string) func(*v1alpha1.LimiterSpec) {
		return func(s *v1alpha1.LimiterSpec) {
			s.KubernetesThrottle.NamespacedPolicies = v1alpha1.NamespacedPoliciesSelected
			s.KubernetesThrottle.NamespacedPolicySelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": team}}
		}
	}
	off := limiter(func(s *v1alpha1.LimiterSpec) { s.KubernetesThrottle = nil })
	none := limiter(func(*v1alpha1.LimiterSpec) {})
	retail, money := limiter(selecting("retail")), limiter(selecting("money"))
	for name, c := range map[string]struct {
		spec     string
		limiters []v1alpha1.Limiter
		warned   bool
	}{
		"no Limiter exists":                          {writes, nil, false},
		"a Limiter without kubernetesThrottle":       {writes, []v1alpha1.Limiter{off}, true},
		"a Limiter that admits no namespaced policy": {writes, []v1alpha1.Limiter{off, none}, true},
		"a Limiter that selects another namespace":   {writes, []v1alpha1.Limiter{money}, true},
		"a Limiter that selects the namespace":       {writes, []v1alpha1.Limiter{off, money, retail}, false},
		"a policy for requests":                      {validSpec, []v1alpha1.Limiter{none}, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := policytest.Stored(t, "a", c.spec)
			p.Namespace = "shop"
			warnings, err := newValidator(storedObjects{limiters: c.limiters}).ValidateCreate(t.Context(), &p)
			const want = "spec.match.kubernetes: no Limiter lets policies of namespace shop limit writes; see the condition Ready"
			if err != nil || slices.Contains(warnings, want) != c.warned {
				t.Errorf("error %v, warnings %q", err, warnings)
			}
		})
	}
	p := policytest.Stored(t, "a", writes)
	var lines []string
	logger := funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{})
	for name, c := range map[string]struct {
		stored storedObjects
		logged bool
	}{
		"a list":        {storedObjects{}, false},
		"a failed list": {storedObjects{err: errors.New("no cache")}, true},
	} {
		lines = nil
		if _, err := newValidator(c.stored).ValidateCreate(log.IntoContext(t.Context(), logger), &p); err != nil {
			t.Errorf("%s rejects the policy: %v", name, err)
		}
		if logged := strings.Contains(strings.Join(lines, "\n"), "Could not determine whether a Limiter admits a policy"); logged != c.logged {
			t.Errorf("%s is logged: %t, want %t: %q", name, logged, c.logged, lines)
		}
	}
}
