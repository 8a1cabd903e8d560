package ruleset

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/limiter/rules"
)

// publishedNamespace returns the test's namespace in the active rule set; nil if it is not there.
func (h *harness) publishedNamespace() *rules.Namespace {
	h.Helper()
	data, _, err := h.exchange.Archive(h.Context(), h.activeRevision())
	h.must(err)
	set, _, err := rules.Decode(data)
	h.must(err)
	for i := range set.Namespaces {
		if set.Namespaces[i].Name == h.namespace {
			return &set.Namespaces[i]
		}
	}
	return nil
}

func TestReconcile_PublishesTheNamespaceLabelsThatRulesUse(t *testing.T) {
	h := newHarness(t)
	h.throttle()
	h.createCluster("pods", func(s *v1alpha1.ClusterRateLimitPolicySpec) {
		s.Match = &v1alpha1.Match{Kubernetes: &v1alpha1.KubernetesMatch{
			Resources: []v1alpha1.KubernetesResources{{
				APIGroups: []v1alpha1.APIGroup{""}, Resources: []v1alpha1.ResourceName{"pods"}, Operations: []v1alpha1.Operation{v1alpha1.OperationCreate},
			}},
			NamespaceSelector: &v1alpha1.LabelSelector{MatchLabels: map[string]string{"plan": "free"}},
		}}
	})
	h.reconcile()
	if got := h.publishedNamespace(); got != nil {
		t.Errorf("a namespace without the label is published: %+v", got)
	}
	var namespace corev1.Namespace
	h.must(h.kube.Get(t.Context(), client.ObjectKey{Name: h.namespace}, &namespace))
	metav1.SetMetaDataLabel(&namespace.ObjectMeta, "plan", "free")
	metav1.SetMetaDataLabel(&namespace.ObjectMeta, "other", "label")
	h.must(h.kube.Update(t.Context(), &namespace))
	h.reconcile()
	if diff := cmp.Diff(&rules.Namespace{Name: h.namespace, Labels: map[string]string{"plan": "free"}}, h.publishedNamespace()); diff != "" {
		t.Errorf("published namespace (-want +got):\n%s", diff)
	}
	revision := h.activeRevision()
	metav1.SetMetaDataLabel(&namespace.ObjectMeta, "other", "changed")
	h.must(h.kube.Update(t.Context(), &namespace))
	h.reconcile()
	if h.activeRevision() != revision {
		t.Error("a label that no rule uses changed the rule set")
	}
}
