package registration

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/controllers/ruleset/report"
)

func TestReconcile_ReportsWhichPoliciesTheWebhookCovers(t *testing.T) {
	h := newHarness(t)
	h.limiter(h.namespace, "default", nil)
	uid := h.read(h.namespace, "default").UID
	expectProblem := func(part string) {
		t.Helper()
		if got := h.reported[uid]; part == "" && got.Problem != "" || !strings.Contains(got.Problem, part) {
			t.Errorf("problem %q, want %q", got.Problem, part)
		}
	}
	pods := h.policy("pods", nil, "pods")
	nodes := h.policy("nodes", nil, "nodes")
	h.reconcile()
	expectProblem("Secret")
	h.rotate()
	h.reconcile()
	expectProblem("No pod that serves API servers is ready")
	h.setReplicas("default", 2, 0)
	h.configurationErr = errors.New("etcdserver: request timed out")
	if _, err := h.reconciler.Reconcile(t.Context(), ctrl.Request{}); !errors.Is(err, h.configurationErr) {
		t.Fatalf("error %v", err)
	}
	expectProblem("could not be written: apply ValidatingWebhookConfiguration weir-throttle: etcdserver: request timed out")
	h.configurationErr = nil
	h.reconcile()
	want := map[types.UID]report.Webhook{uid: {Covers: map[types.UID]report.Coverage{
		pods.UID: {Generation: 1, Covered: true}, nodes.UID: {Generation: 1}, // writes to nodes are never limited
	}}}
	if diff := cmp.Diff(want, h.reported); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	h.setReplicas("default", 0, 0)
	h.reconcile()
	expectProblem("no pod of the Limiter is ready")
	h.edit(func(s *v1alpha1.LimiterSpec) { s.KubernetesThrottle.Mode = v1alpha1.ThrottleModeDisabled })
	h.reconcile()
	expectProblem("spec.kubernetesThrottle is not set, or disabled")
}

func TestReconcile_RegistersNamespacedPoliciesOnlyWhereTheyAreAdmitted(t *testing.T) {
	h := newRegisteredHarness(t)
	uid := h.read(h.namespace, "default").UID
	p := &v1alpha1.RateLimitPolicy{}
	p.Name, p.Namespace = "everything", defaultNamespace
	p.Spec.Axis, p.Spec.Limit, p.Spec.Window = v1alpha1.AxisUser, new(int64(1)), "1h"
	p.Spec.Match = &v1alpha1.Match{Kubernetes: &v1alpha1.KubernetesMatch{Resources: []v1alpha1.KubernetesResources{{
		APIGroups: []v1alpha1.APIGroup{"*"}, Resources: []v1alpha1.ResourceName{"*/*"},
	}}}}
	h.must(h.kube.Create(t.Context(), p))
	h.reconcile()
	if _, covered := h.reported[uid].Covers[p.UID]; covered || len(h.webhooks()) != 1 {
		t.Errorf("a policy that is not admitted has webhooks %q", h.webhooks())
	}
	admit := func(label string) {
		h.edit(func(s *v1alpha1.LimiterSpec) {
			s.KubernetesThrottle.NamespacedPolicies = v1alpha1.NamespacedPoliciesSelected
			s.KubernetesThrottle.NamespacedPolicySelector = &metav1.LabelSelector{
				MatchLabels: map[string]string{"kubernetes.io/metadata.name": label},
			}
		})
		h.reconcile()
	}
	admit("another")
	if len(h.webhooks()) != 1 {
		t.Errorf("a policy of a namespace that is not selected has webhooks %q", h.webhooks())
	}
	admit(defaultNamespace)
	if got := h.reported[uid].Covers[p.UID]; !got.Covered || len(h.webhooks()) != 3 {
		t.Errorf("coverage %+v, webhooks %q", got, h.webhooks())
	}
}

const defaultNamespace = "default"
