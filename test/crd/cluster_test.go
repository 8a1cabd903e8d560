package crd

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	ac "github.com/weir-dev/weir/api/v1alpha1/applyconfiguration/api/v1alpha1"
)

func TestClusterRateLimitPolicy_IsStoredAsAppliedAndHasColumns(t *testing.T) {
	n := newNamespace(t)
	name := "cluster-" + n.name // unique, because the object is cluster-scoped and all tests share one API server
	written := &v1alpha1.ClusterRateLimitPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1alpha1.ClusterRateLimitPolicySpec{
			RateLimitPolicySpec: v1alpha1.RateLimitPolicySpec{Axis: v1alpha1.AxisTenant, Limit: new(int64(10)), Window: "1d"},
			Domains:             []v1alpha1.Domain{"shop", "billing"},
		},
	}
	want := written.Spec.DeepCopy()
	if err := n.Create(t.Context(), written); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Delete(context.WithoutCancel(t.Context()), written); err != nil {
			t.Error(err)
		}
	})
	if diff := cmp.Diff(*want, written.Spec); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
	if written.Status.ObservedGeneration != -1 {
		t.Errorf("observedGeneration is %d before a controller writes status, want -1", written.Status.ObservedGeneration)
	}

	status := ac.RateLimitPolicyStatus().WithConditions(
		condition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonProgrammed),
		condition(v1alpha1.ConditionOverridden, metav1.ConditionTrue, v1alpha1.ReasonNamespacePolicy)).WithEffective(effective())
	if err := n.Status().Apply(t.Context(), ac.ClusterRateLimitPolicy(name).WithStatus(status), client.ForceOwnership); err != nil {
		t.Fatal(err)
	}
	out := n.kubectl(t, "get", "clusterratelimitpolicies", name, "-o", "wide")
	wantTable := [][]string{
		{"NAME", "READY", "ENFORCED", "AXIS", "LIMIT", "WINDOW", "ALGORITHM", "AGE", "RATES", "REASON"},
		{name, "True", "", "Tenant", "10", "1d", "SlidingWindowCounter", "*", "10 per 1m", "Programmed"},
	}
	if diff := cmp.Diff(wantTable, table(out)); diff != "" {
		t.Errorf("kubectl get (-want +got):\n%s\n%s", diff, out)
	}
	for _, kind := range []string{"weir", "crlp"} {
		if out := n.kubectl(t, "get", kind, "-o", "name"); !strings.Contains(out, "clusterratelimitpolicy.weir.dev/"+name) {
			t.Errorf("kubectl get %s does not list the policy: %s", kind, out)
		}
	}
}

func TestClusterRateLimitPolicy_ExplainsInvalidFields(t *testing.T) {
	n := newNamespace(t)
	for _, c := range []struct{ name, change, field, message string }{
		{"an empty domain", `spec: {domains: [""]}`, "spec.domains[0]", domainMessage},
		{"a domain with a line break", `spec: {domains: ["shop\n"]}`, "spec.domains[0]", domainMessage},
		{"a domain with a control character", `spec: {domains: ["sh\u0007op"]}`, "spec.domains[0]", domainMessage},
	} {
		t.Run(c.name, func(t *testing.T) {
			checkRejection(t, n.tryCreateOf(t, clusterRateLimitPolicies(), c.change), c.field, c.message)
		})
	}
}
