package crd

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	ac "github.com/weir-dev/weir/api/v1alpha1/applyconfiguration/api/v1alpha1"
)

func TestRateLimitPolicy_IsStoredAsApplied(t *testing.T) {
	n := newNamespace(t)
	written := n.policy(t, `
spec:
  window: 1d
  match:
    http:
      hosts: [b.example, a.example]
      paths: [{value: /v1/}]
      headers: [{name: X-Plan, value: free}]
`)
	if err := n.Create(t.Context(), written); err != nil {
		t.Fatal(err)
	}
	want := parse(t, `
spec:
  axis: Tenant
  limit: 10
  window: 1d
  match:
    http:
      hosts: [b.example, a.example]
      paths: [{value: /v1/}]
      headers: [{name: X-Plan, value: free}]
status: {observedGeneration: -1}
`)
	got := n.stored(t, written.GetName())
	delete(got.Object, "metadata")
	delete(got.Object, "apiVersion")
	delete(got.Object, "kind")
	if diff := cmp.Diff(asJSON(t, want), asJSON(t, got.Object)); diff != "" {
		t.Errorf("stored (-want +got):\n%s", diff)
	}
}

func TestRateLimitPolicy_RoundTripsThroughGoTypes(t *testing.T) {
	n := newNamespace(t)
	value, header, expression := "free", v1alpha1.HeaderName("X-Tenant-ID"), v1alpha1.Expression("true")
	written := &v1alpha1.RateLimitPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: n.name, Name: "typed"},
		Spec: v1alpha1.RateLimitPolicySpec{
			Axis: v1alpha1.AxisTenant, Limit: new(int64(10)), Window: "1m", Algorithm: v1alpha1.SlidingWindowLog,
			Identifier: &v1alpha1.Identifier{IdentifierSource: v1alpha1.IdentifierSource{Header: &header}}, Scope: v1alpha1.ScopeEndpoint,
			Match: &v1alpha1.Match{HTTP: &v1alpha1.HTTPMatch{
				Hosts:   []v1alpha1.Host{"*.shop.example"},
				Paths:   []v1alpha1.PathMatch{{Type: v1alpha1.PathExact, Value: "/v1"}},
				Methods: []v1alpha1.Method{"GET"},
				Headers: []v1alpha1.HeaderMatch{{Name: "x-plan", Type: v1alpha1.HeaderExact, Value: &value, Invert: true}},
				CIDRs:   []v1alpha1.CIDR{"2001:DB8::/32"}, ExceptCIDRs: []v1alpha1.CIDR{"203.0.113.7/32"}, Expression: &expression,
			}},
			Tiers: []v1alpha1.Tier{
				{
					Name: "paid", Limit: new(int64(1000)),
					When: v1alpha1.When{Header: &v1alpha1.HeaderMatch{Name: "x-plan", Type: v1alpha1.HeaderExact, Value: &value}},
				},
				{Name: "own", Unlimited: true, When: v1alpha1.When{Identifiers: []v1alpha1.TierIdentifier{"a", "a"}}},
				{Name: "staff", Unlimited: true, When: v1alpha1.When{Groups: []v1alpha1.Group{"staff"}}},
			},
			Cost:        &v1alpha1.Cost{Header: &header},
			Overrun:     v1alpha1.OverrunDeny,
			Enforcement: v1alpha1.EnforcementShadow, OnStoreFailure: v1alpha1.StoreFailureDeny,
			LocalShare: v1alpha1.LocalShareEqual,
			Lease:      &v1alpha1.Lease{MaxShare: "25%", MaxAge: "250ms"},
			Storage:    v1alpha1.StorageExact,
			Denial: &v1alpha1.Denial{
				Status: 402, Message: "{}", ContentType: "application/json", Headers: []v1alpha1.DenialHeader{{Name: "X-Plan", Value: "free"}},
			},
		},
	}
	want := written.DeepCopy()
	if err := n.Create(t.Context(), written); err != nil {
		t.Fatal(err)
	}
	var got v1alpha1.RateLimitPolicy
	if err := n.Get(t.Context(), client.ObjectKeyFromObject(written), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want.Spec, got.Spec); diff != "" {
		t.Errorf("spec (-written +read):\n%s", diff)
	}
	if got.Status.ObservedGeneration != -1 {
		t.Errorf("observedGeneration is %d before a controller writes status, want -1", got.Status.ObservedGeneration)
	}
}

func TestStatus_IsNotWritableWithSpec(t *testing.T) {
	n := newNamespace(t)
	p := n.policy(t, `status: {observedGeneration: 7, conditions: []}`)
	if err := n.Create(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	want := parse(t, `{observedGeneration: -1}`)
	if diff := cmp.Diff(asJSON(t, want), asJSON(t, n.stored(t, p.GetName()).Object["status"])); diff != "" {
		t.Errorf("status after creation with a status (-want +got):\n%s", diff)
	}
}

func TestStatus_IsWrittenByServerSideApply(t *testing.T) {
	n := newNamespace(t)
	p := n.policy(t, `{}`)
	if err := n.Create(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	status := ac.RateLimitPolicyStatus().
		WithObservedGeneration(p.GetGeneration()).
		WithConditions(condition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonProgrammed)).
		WithLimiters(ac.PolicyLimiterStatus().WithNamespace("weir-system").WithName("default").WithRevision("sha256:00").
			WithAcknowledged(2).WithReplicas(3)).
		WithEffective(effective())
	change := ac.RateLimitPolicy(p.GetName(), n.name).WithStatus(status)
	if err := n.Status().Apply(t.Context(), change, client.ForceOwnership); err != nil {
		t.Fatal(err)
	}
	first := n.stored(t, p.GetName())
	if diff := cmp.Diff(asJSON(t, status), asJSON(t, first.Object["status"])); diff != "" {
		t.Errorf("status (-applied +stored):\n%s", diff)
	}
	if err := n.Status().Apply(t.Context(), change, client.ForceOwnership); err != nil {
		t.Fatal(err)
	}
	if got := n.stored(t, p.GetName()).GetResourceVersion(); got != first.GetResourceVersion() {
		t.Errorf("applying the same status again changed the resource version: got %s, want %s", got, first.GetResourceVersion())
	}
}

func TestServerSideApply_IsIdempotent(t *testing.T) {
	n := newNamespace(t)
	apply := func() *unstructured.Unstructured {
		p := n.policy(t, path(`{value: /v1}`))
		if err := n.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(p)); err != nil {
			t.Fatal(err)
		}
		return n.stored(t, p.GetName())
	}
	first, second, third := apply(), apply(), apply()
	if diff := cmp.Diff(second.Object, third.Object); diff != "" {
		t.Errorf("the third apply changed the object (-before +after):\n%s", diff)
	}
	// The first update stores the default of status. Creation does not store it; the API server adds it to each read. Nothing else changes.
	second.SetResourceVersion(first.GetResourceVersion())
	if diff := cmp.Diff(first.Object, second.Object); diff != "" {
		t.Errorf("the second apply changed more than the resource version (-created +updated):\n%s", diff)
	}
}

func TestFieldSelectors_SelectPolicies(t *testing.T) {
	n := newNamespace(t)
	for _, change := range []string{
		`metadata: {name: by-tenant}`,
		`{metadata: {name: by-address}, spec: {axis: IP}}`,
		`{metadata: {name: in-shadow}, spec: {enforcement: Shadow}}`,
	} {
		if err := n.Create(t.Context(), n.policy(t, change)); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ field, value, want string }{
		{"spec.axis", "IP", "by-address"},
		{"spec.enforcement", "Shadow", "in-shadow"},
	} {
		var list v1alpha1.RateLimitPolicyList
		if err := n.List(t.Context(), &list, client.InNamespace(n.name), client.MatchingFields{c.field: c.value}); err != nil {
			t.Fatal(err)
		}
		if len(list.Items) != 1 || list.Items[0].Name != c.want {
			t.Errorf("%s=%s selects %d policies, want only %s", c.field, c.value, len(list.Items), c.want)
		}
	}
}

func (n namespace) stored(t *testing.T, name string) *unstructured.Unstructured {
	t.Helper()
	got := n.policy(t, `{}`)
	if err := n.Get(t.Context(), client.ObjectKey{Namespace: n.name, Name: name}, got); err != nil {
		t.Fatal(err)
	}
	return got
}

// condition returns a condition as the operator writes it, with a fixed time.
func condition(kind string, status metav1.ConditionStatus, reason string) *metav1ac.ConditionApplyConfiguration {
	return metav1ac.Condition().WithType(kind).WithStatus(status).WithReason(reason).WithMessage("").
		WithObservedGeneration(1).WithLastTransitionTime(metav1.NewTime(time.Unix(1_790_000_000, 0)))
}

// asJSON returns v in the types of encoding/json, so that numbers of different Go types compare as equal.
func asJSON(t *testing.T, v any) any {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var plain any
	if err := json.Unmarshal(data, &plain); err != nil {
		t.Fatal(err)
	}
	return plain
}
