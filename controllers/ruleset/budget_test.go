package ruleset

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-dev/weir/api/v1alpha1"
)

func TestReconcile_LeavesOutAPolicyOverBudget(t *testing.T) {
	h := newHarness(t)
	l := h.limiter("default")
	l.Spec.PolicyBudget.PerNamespace.Rules = new(int64(2))
	l.Spec.PolicyBudget.Total.Rules = new(int64(8))
	h.must(h.kube.Update(t.Context(), l))
	for _, name := range []string{"daily", "hourly", "minutely"} { // of the same age: the name decides
		h.createPolicy(name, nil)
	}
	enforce := func() {
		h.reconcile()
		h.heartbeat(h.activeRevision(), "a")
		h.reconcile()
	}
	enforce()
	if diff := cmp.Diff(map[string]int64{"daily": 100, "hourly": 100}, h.activeLimits()); diff != "" {
		t.Errorf("active limits (-want +got):\n%s", diff)
	}
	for _, kind := range []string{v1alpha1.ConditionAccepted, v1alpha1.ConditionProgrammed, v1alpha1.ConditionReady} {
		h.hasCondition("daily", kind, yes, map[bool]string{true: v1alpha1.ReasonAccepted, false: v1alpha1.ReasonProgrammed}[kind == v1alpha1.ConditionAccepted])
		h.hasCondition("minutely", kind, no, "OverBudget")
	}
	h.hasCondition("minutely", v1alpha1.ConditionStalled, yes, "OverBudget")
	want := fmt.Sprintf("spec: over the policy budget of the Limiter: this policy needs 1 rules, and the older policies of namespace %s leave less of 2: "+
		"shorten or delete policies, or raise spec.policyBudget.perNamespace.rules of the Limiter", h.namespace)
	if got := h.message("minutely", v1alpha1.ConditionReady); got != want {
		t.Errorf("Ready has message %q, want %q", got, want)
	}
	if got := h.metric("weir_policy_problems", "OverBudget"); got != 1 {
		t.Errorf("weir_policy_problems = %v, want 1", got)
	}
	if got := h.metric("weir_policy_budget_used_ratio", "rules"); got != 0.25 {
		t.Errorf("weir_policy_budget_used_ratio of rules = %v, want 0.25", got)
	}
	steady := h.versions()
	h.editPolicy("daily", limit(7)) // an edit of another policy writes no status of this one
	enforce()
	if h.versions()["minutely"] != steady["minutely"] {
		t.Error("the status of the policy over budget was written again")
	}

	h.must(h.kube.Delete(t.Context(), h.policy("hourly")))
	enforce()
	h.hasCondition("minutely", v1alpha1.ConditionReady, yes, v1alpha1.ReasonProgrammed)
	h.hasNoCondition("minutely", v1alpha1.ConditionStalled)
}
