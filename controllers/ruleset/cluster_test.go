package ruleset

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	_ "github.com/weir-dev/weir/limiter/rules/expr/celexpr" // policies of the tests have expressions
)

// createCluster creates a ClusterRateLimitPolicy of 1000 units a day for each tenant. A non-nil change is applied to the spec.
func (h *harness) createCluster(name string, change func(*v1alpha1.ClusterRateLimitPolicySpec)) {
	h.Helper()
	p := v1alpha1.ClusterRateLimitPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1alpha1.ClusterRateLimitPolicySpec{RateLimitPolicySpec: v1alpha1.RateLimitPolicySpec{
			Axis: v1alpha1.AxisTenant, Limit: new(int64(1000)), Window: "1d", Algorithm: v1alpha1.SlidingWindowCounter,
		}},
	}
	if change != nil {
		change(&p.Spec)
	}
	h.must(h.kube.Create(h.Context(), &p))
}

func (h *harness) clusterConditions(name string) []metav1.Condition {
	h.Helper()
	var p v1alpha1.ClusterRateLimitPolicy
	h.must(h.kube.Get(h.Context(), client.ObjectKey{Name: name}, &p))
	return p.Status.Conditions
}

func TestReconcile_PublishesClusterPoliciesTogetherWithOthers(t *testing.T) {
	h := newHarness(t)
	h.createPolicy("daily", nil)
	h.createCluster("all-tenants", nil)
	h.createCluster("broken", func(s *v1alpha1.ClusterRateLimitPolicySpec) {
		s.Match = &v1alpha1.Match{HTTP: &v1alpha1.HTTPMatch{Paths: []v1alpha1.PathMatch{{Type: v1alpha1.PathRegularExpression, Value: "("}}}}
	})
	h.reconcile()
	h.heartbeat(h.activeRevision(), "a")
	h.reconcile()
	h.hasCondition("daily", v1alpha1.ConditionReady, yes, v1alpha1.ReasonProgrammed)
	if !meta.IsStatusConditionTrue(h.clusterConditions("all-tenants"), v1alpha1.ConditionReady) {
		t.Errorf("conditions of the ClusterRateLimitPolicy: %+v", h.clusterConditions("all-tenants"))
	}
	if c := meta.FindStatusCondition(h.clusterConditions("broken"), v1alpha1.ConditionStalled); c == nil ||
		!strings.Contains(c.Message, "spec.match.http.paths[0].value") {
		t.Errorf("Stalled of the invalid policy: %+v", c)
	}
	version := func() string {
		var p v1alpha1.ClusterRateLimitPolicy
		h.must(h.kube.Get(t.Context(), client.ObjectKey{Name: "all-tenants"}, &p))
		return p.ResourceVersion
	}
	before := version()
	h.reconcile()
	h.restartOperator()
	h.reconcile()
	if version() != before {
		t.Error("a status was written although nothing changed")
	}
}

func TestReporter_ReportsOverriddenPoliciesAndTheOverridingOne(t *testing.T) {
	h := newHarness(t)
	h.createPolicy("daily", func(s *v1alpha1.RateLimitPolicySpec) { s.Replaces = []v1alpha1.PolicyName{"fallback"} })
	h.createCluster("fallback", func(s *v1alpha1.ClusterRateLimitPolicySpec) { s.Precedence = v1alpha1.PrecedenceDefault })
	h.reconcile()
	c := meta.FindStatusCondition(h.clusterConditions("fallback"), v1alpha1.ConditionOverridden)
	if c == nil || c.Status != yes || c.Reason != v1alpha1.ReasonNamespacePolicy || !strings.Contains(c.Message, h.namespace+"/daily") {
		t.Errorf("Overridden: %+v", c)
	}
	var fallback v1alpha1.ClusterRateLimitPolicy
	h.must(h.kube.Get(t.Context(), client.ObjectKey{Name: "fallback"}, &fallback))
	want := []v1alpha1.PolicyOverride{{Domain: h.namespace, Kind: "RateLimitPolicy", Name: "daily"}}
	if diff := cmp.Diff(want, fallback.Status.OverriddenBy); diff != "" || fallback.Status.OverriddenDomains != 1 {
		t.Errorf("in %d domains, by (-want +got):\n%s", fallback.Status.OverriddenDomains, diff)
	}
	h.editPolicy("daily", func(s *v1alpha1.RateLimitPolicySpec) { s.Axis, s.Replaces = v1alpha1.AxisUser, nil })
	h.reconcile()
	if c := meta.FindStatusCondition(h.clusterConditions("fallback"), v1alpha1.ConditionOverridden); c != nil {
		t.Errorf("Overridden after the edit of the overriding policy: %+v", c)
	}
	h.createCluster("strict", func(s *v1alpha1.ClusterRateLimitPolicySpec) { s.Axis, s.Limit = v1alpha1.AxisUser, new(int64(1)) })
	h.reconcile()
	h.hasCondition("daily", v1alpha1.ConditionOverridden, yes, v1alpha1.ReasonStricterPolicy)
	if by := h.policy("daily").Status.OverriddenBy; len(by) != 1 || by[0].Kind != "ClusterRateLimitPolicy" || by[0].Domain != h.namespace {
		t.Errorf("daily is overridden by %+v", by)
	}
}
