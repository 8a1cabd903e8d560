package ruleset

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/controllers/ruleset/report"
)

// throttle enables kubernetesThrottle on the Limiter, and admits no RateLimitPolicy.
func (h *harness) throttle() {
	h.Helper()
	h.editThrottle(func(*v1alpha1.KubernetesThrottle) {})
}

func (h *harness) editThrottle(change func(*v1alpha1.KubernetesThrottle)) {
	h.Helper()
	h.update(func() error {
		l := h.limiter(limiterName.Name)
		if l.Spec.KubernetesThrottle == nil {
			l.Spec.KubernetesThrottle = &v1alpha1.KubernetesThrottle{}
		}
		change(l.Spec.KubernetesThrottle)
		return h.kube.Update(h.Context(), l)
	})
}

func limitPods(s *v1alpha1.RateLimitPolicySpec) {
	s.Axis = v1alpha1.AxisUser
	s.Match = &v1alpha1.Match{Kubernetes: &v1alpha1.KubernetesMatch{Resources: []v1alpha1.KubernetesResources{{
		APIGroups: []v1alpha1.APIGroup{""}, Resources: []v1alpha1.ResourceName{"pods"},
	}}}}
}

func TestSelectPolicies_NamespacedPoliciesLimitWritesOnlyWhereALimiterAdmitsThem(t *testing.T) {
	h := newHarness(t)
	h.reconciler.SetWebhooks(map[types.UID]report.Webhook{h.limiter(limiterName.Name).UID: {Problem: "some"}})
	h.createPolicy("writes", limitPods)
	expect := func(reason, message string) {
		t.Helper()
		h.reconcile()
		h.report()
		h.hasCondition("writes", v1alpha1.ConditionAccepted, metav1.ConditionTrue, v1alpha1.ReasonAccepted)
		h.hasCondition("writes", v1alpha1.ConditionReady, metav1.ConditionFalse, reason)
		if got := h.message("writes", v1alpha1.ConditionReady); !strings.Contains(got, message) {
			t.Errorf("message %q, want %q", got, message)
		}
		if limits := h.activeLimits(); (len(limits) > 0) == (reason == v1alpha1.ReasonNotAdmitted) {
			t.Errorf("the limits are %v", limits)
		}
	}
	expect(v1alpha1.ReasonNotAdmitted, "the policy limits no writes: Limiter "+limiterName.String()+" has no spec.kubernetesThrottle, so API servers do not call it; "+
		"use a ClusterRateLimitPolicy, or ask an administrator to select the namespace in spec.kubernetesThrottle of a Limiter")
	h.throttle()
	expect(v1alpha1.ReasonNotAdmitted, "lets only ClusterRateLimitPolicies limit writes: spec.kubernetesThrottle.namespacedPolicies is None")
	selecting := func(name string) func(*v1alpha1.KubernetesThrottle) {
		return func(k *v1alpha1.KubernetesThrottle) {
			k.NamespacedPolicies = v1alpha1.NamespacedPoliciesSelected
			k.NamespacedPolicySelector = &metav1.LabelSelector{
				MatchLabels: map[string]string{"kubernetes.io/metadata.name": name},
			}
		}
	}
	h.editThrottle(selecting("another"))
	expect(v1alpha1.ReasonNotAdmitted, "does not select namespace "+h.namespace+" in spec.kubernetesThrottle.namespacedPolicySelector")
	h.editThrottle(selecting(h.namespace))
	expect(v1alpha1.ReasonNoReplicas, "")
	h.editThrottle(func(k *v1alpha1.KubernetesThrottle) { k.Mode = v1alpha1.ThrottleModeDisabled })
	expect(v1alpha1.ReasonNotAdmitted, "has no spec.kubernetesThrottle")
}

func TestReport_APolicyForWritesIsReadyOnlyWhenAPIServersCallItsLimiter(t *testing.T) {
	h := newHarness(t)
	h.editThrottle(func(k *v1alpha1.KubernetesThrottle) {
		k.NamespacedPolicies, k.NamespacedPolicySelector = v1alpha1.NamespacedPoliciesSelected, &metav1.LabelSelector{}
	})
	h.createPolicy("writes", limitPods)
	h.createPolicy("requests", nil)
	h.reconcile()
	h.heartbeat(h.activeRevision(), "a", "b")
	h.reconcile()
	h.report()
	h.hasCondition("requests", v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonProgrammed)
	if got := h.policy("writes").Status.Conditions; len(got) > 0 && got[0].Reason != "Pending" {
		t.Errorf("before the webhook is known, the conditions are %+v", got)
	}
	limiter, policy := h.limiter(limiterName.Name).UID, h.policy("writes")
	set := func(w report.Webhook) {
		h.reconciler.SetWebhooks(map[types.UID]report.Webhook{limiter: w})
		h.report()
	}
	covers := func(generation int64, covered bool) report.Webhook {
		return report.Webhook{Covers: map[types.UID]report.Coverage{policy.UID: {Generation: generation, Covered: covered}}}
	}
	for _, c := range []struct {
		webhook report.Webhook
		want    string
	}{
		{report.Webhook{Problem: "no pod of the Limiter is ready"}, "API servers do not call the Limiter for this policy: no pod of the Limiter is ready"},
		{report.Webhook{}, "API servers do not call the Limiter for this policy: the webhook does not cover this generation of the policy yet"},
		{covers(policy.Generation-1, true), "API servers do not call the Limiter for this policy: the webhook does not cover this generation of the policy yet"},
		{covers(policy.Generation, false), "API servers do not call the Limiter for this policy: the policy matches only writes that are never limited"},
	} {
		set(c.webhook)
		h.hasCondition("writes", v1alpha1.ConditionProgrammed, metav1.ConditionFalse, v1alpha1.ReasonNotRegistered)
		h.hasCondition("writes", v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonNotRegistered)
		if got := h.message("writes", v1alpha1.ConditionReady); got != c.want {
			t.Errorf("message %q, want %q", got, c.want)
		}
	}
	set(covers(policy.Generation, true))
	h.hasCondition("writes", v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonProgrammed)
	set(report.Webhook{Problem: "gone"})
	h.hasCondition("writes", v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonNotRegistered)
	h.hasCondition("requests", v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonProgrammed)
}
