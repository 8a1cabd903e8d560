package deployment

import (
	"context"
	"errors"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/test/fixture"
	"github.com/weir-dev/weir/test/fixture/kubetest"
)

func TestPrune_DeletesOwnedNetworkPoliciesWhenDisabled(t *testing.T) {
	h := newHarness(t)
	h.create("default", nil)
	h.reconcile("default")
	h.reconciler.Options.NetworkPolicies = false
	h.reconcile("default")
	if kinds := strings.Join(h.existingKinds(), " "); strings.Contains(kinds, "NetworkPolicy") {
		t.Errorf("existing objects %s, want no NetworkPolicy", kinds)
	}
	h.reconciler.Options.NetworkPolicies = true
	h.reconcile("default")
	policy := owned[networkingv1.NetworkPolicy](h, "default")
	h.reconciler.Options.NetworkPolicies = false
	policy.OwnerReferences = nil // no longer owned by the Limiter
	h.must(h.kube.Update(t.Context(), policy))
	h.reconcile("default")
	if kinds := strings.Join(h.existingKinds(), " "); !strings.Contains(kinds, "NetworkPolicy") {
		t.Error("a foreign NetworkPolicy was deleted")
	}
}

const podMonitorDefinition = `{
"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "podmonitors.monitoring.coreos.com"},
"spec": {"group": "monitoring.coreos.com", "scope": "Namespaced",
  "names": {"kind": "PodMonitor", "listKind": "PodMonitorList", "plural": "podmonitors", "singular": "podmonitor"},
  "versions": [{"name": "v1", "served": true, "storage": true,
    "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}}`

func TestPodMonitors_RequireTheirCRD(t *testing.T) {
	h := newHarness(t)
	h.reconciler.Options.PodMonitors = true
	h.create("default", nil)
	h.reconcile("default")
	h.expectCondition(v1alpha1.ConditionProgrammed, no, v1alpha1.ReasonRefused)
	if got := h.message(v1alpha1.ConditionProgrammed); !strings.Contains(got, "does not have this kind") {
		t.Errorf("the message of Programmed is %q", got)
	}
	kube := kubetest.Kube(t)
	if _, err := kube.Kubectl(t.Context(), "create", "-f", writeFile(t, podMonitorDefinition)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, err := kube.Kubectl(context.Background(), "delete", "crd", "podmonitors.monitoring.coreos.com")
		h.must(err)
	})
	fixture.Await(h, "the API server knows the kind", func() bool {
		h.reconcile("default")
		return !strings.Contains(h.message(v1alpha1.ConditionProgrammed), "kind")
	})
	h.expectCondition(v1alpha1.ConditionProgrammed, yes, v1alpha1.ReasonDeployed)
	monitor := emptyPodMonitor()
	h.must(h.kube.Get(t.Context(), types.NamespacedName{Namespace: h.namespace, Name: Name("default")}, monitor))
	h.writes = nil
	h.reconcile("default")
	if len(h.writes) > 0 {
		t.Errorf("nothing has changed, but the controller wrote %q", h.writes)
	}
}

// The API server fails for one object.
func TestReconcile_RetriesServerErrors(t *testing.T) {
	h := newHarness(t)
	h.create("default", nil)
	broken := true
	trouble := errors.New("etcdserver: request timed out")
	h.reconciler.Client = interceptor.NewClient(h.kube, interceptor.Funcs{
		Apply: func(ctx context.Context, c client.WithWatch, object runtime.ApplyConfiguration, options ...client.ApplyOption) error {
			if named, is := object.(interface{ GetKind() string }); is && broken && named.GetKind() == "Service" {
				return trouble
			}
			return c.Apply(ctx, object, options...)
		},
	})
	request := ctrl.Request{NamespacedName: types.NamespacedName{Namespace: h.namespace, Name: "default"}}
	if _, err := h.reconciler.Reconcile(t.Context(), request); !errors.Is(err, trouble) {
		t.Errorf("error %v", err)
	}
	if kinds := strings.Join(h.existingKinds(), " "); !strings.Contains(kinds, "Deployment") || strings.Contains(kinds, "Service ") {
		t.Errorf("existing objects %s, want a Deployment and no Service", kinds)
	}
	if got := h.limiter().Status; got.ObservedGeneration != -1 || len(got.Conditions) > 0 {
		t.Errorf("the status is %+v, want none while the outcome is unknown", got)
	}
	broken = false
	h.reconcile("default")
	h.expectCondition(v1alpha1.ConditionProgrammed, yes, v1alpha1.ReasonDeployed)
}

// The objects of the deleted Limiter remain for some time, as with a slow garbage collector.
func TestReconcile_WaitsForObjectsOfADeletedLimiterWithTheSameName(t *testing.T) {
	h := newHarness(t)
	h.create("default", nil)
	h.reconcile("default")
	h.must(h.kube.Delete(t.Context(), h.limiter()))
	h.reconcile("default")
	h.create("default", nil)
	h.reconcile("default")
	h.expectCondition(v1alpha1.ConditionAccepted, yes, v1alpha1.ReasonAccepted)
	h.expectCondition(v1alpha1.ConditionProgrammed, no, v1alpha1.ReasonPending)
	h.expectNoCondition(v1alpha1.ConditionStalled)
	for _, object := range []client.Object{
		&corev1.ServiceAccount{}, &corev1.ConfigMap{}, &corev1.Service{}, &policyv1.PodDisruptionBudget{}, &appsv1.Deployment{},
		&networkingv1.NetworkPolicy{},
	} {
		object.SetNamespace(h.namespace)
		object.SetName(Name("default"))
		h.must(h.kube.Delete(t.Context(), object))
	}
	h.reconcile("default")
	h.expectCondition(v1alpha1.ConditionProgrammed, yes, v1alpha1.ReasonDeployed)
	if !metav1.IsControlledBy(h.deployment("default"), h.limiter()) {
		t.Error("the new Limiter does not control the Deployment")
	}
}

// report gets the Limiter as it was before an edit.
func TestReport_RetriesWhenTheLimiterWasEdited(t *testing.T) {
	h := newHarness(t)
	h.create("default", nil)
	stale := h.limiter()
	h.edit(func(s *v1alpha1.LimiterSpec) { s.Image = "weir:next" })
	result, err := h.reconciler.report(t.Context(), stale, outcome{})
	if err != nil || result.RequeueAfter != statusRetry {
		t.Errorf("%+v, %v", result, err)
	}
	if got := h.limiter().Status.ObservedGeneration; got != -1 {
		t.Errorf("the status of generation %d replaced a later one", got)
	}
}
