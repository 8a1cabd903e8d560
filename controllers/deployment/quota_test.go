package deployment

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/test/fixture"
)

// The namespace of the Limiter has a ResourceQuota that its Service exceeds.
func TestReconcile_WaitsForAResourceQuota(t *testing.T) {
	h := newHarness(t)
	quota := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: h.namespace, Name: "team"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourceServices: resource.MustParse("0")}},
	}
	h.must(h.kube.Create(t.Context(), quota))
	probe := func() string {
		service := &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: h.namespace, Name: "probe"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
		}
		if err := h.kube.Create(t.Context(), service, client.DryRunAll); err != nil {
			return err.Error()
		}
		return ""
	}
	h.create("default", nil)
	for want, used := range map[string]corev1.ResourceList{ // as the quota controller counts, at the start and later
		"status unknown for quota: team": nil,
		"exceeded quota: team":           {corev1.ResourceServices: resource.MustParse("0")},
	} {
		quota.Status = corev1.ResourceQuotaStatus{Hard: quota.Spec.Hard, Used: used}
		h.must(h.kube.Status().Update(t.Context(), quota))
		fixture.Await(t, "the API server applies the quota: "+want, func() bool { return strings.Contains(probe(), want) })
		h.reconcile("default")
		h.expectCondition(v1alpha1.ConditionAccepted, yes, v1alpha1.ReasonAccepted)
		h.expectCondition(v1alpha1.ConditionProgrammed, no, "QuotaExceeded")
		h.expectCondition(v1alpha1.ConditionReady, no, "QuotaExceeded")
		h.expectCondition(v1alpha1.ConditionReconciling, yes, "QuotaExceeded")
		h.expectNoCondition(v1alpha1.ConditionStalled)
		if got := h.message(v1alpha1.ConditionReady); !strings.Contains(got, "apply Service weir-limiter-default: ") || !strings.Contains(got, want) {
			t.Errorf("the message of Ready is %q, want the Service and %q", got, want)
		}
	}
	h.must(h.kube.Delete(t.Context(), quota))
}

func TestClassifyAPIError_AConflictIsNotStalled(t *testing.T) {
	quotas := schema.GroupResource{Resource: "resourcequotas"}
	err := classifyAPIError("apply Service x", apierrors.NewConflict(quotas, "team", errors.New("the object has been modified")))
	met, ok := errors.AsType[conditionError](err)
	if !ok || met.reason != v1alpha1.ReasonPending || !strings.HasPrefix(met.message, "apply Service x: ") {
		t.Errorf("error %v", err)
	}
}
