package ruleset

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/limiter/controlplane"
	"github.com/weir-dev/weir/limiter/rules"
)

func TestReporter_ReportsWhyAReplicaRejectsItsRules(t *testing.T) {
	h := newHarness(t)
	h.createPolicy("daily", nil)
	h.reconcile()
	before := h.activeRevision()
	h.heartbeat(before, "a", "b")
	h.reconcile()
	h.createPolicy("partners", nil)
	h.reconcile()
	rejects := controlplane.Replica{ID: "b", Revision: before, Mode: "redis", Rejected: "rule shop/partners: bad", Format: rules.Format}
	h.heartbeat(h.activeRevision(), "a")
	h.must(h.exchange.Heartbeat(t.Context(), rejects))
	h.reconcile()
	h.hasCondition("partners", v1alpha1.ConditionProgrammed, no, v1alpha1.ReasonPending)
	want := "1 of 2 replicas enforce generation 1; replica b rejects the rules: rule shop/partners: bad"
	if got := h.message("partners", v1alpha1.ConditionProgrammed); got != want {
		t.Errorf("the policy reports %q, want %q", got, want)
	}
	h.hasCondition("daily", v1alpha1.ConditionReady, yes, v1alpha1.ReasonProgrammed)
	degraded := meta.FindStatusCondition(h.limiter(limiterName.Name).Status.Conditions, v1alpha1.ConditionDegraded)
	if want := "replica b rejects the rules: rule shop/partners: bad"; degraded == nil ||
		degraded.Reason != v1alpha1.ReasonRulesRejected || degraded.Message != want {
		t.Errorf("the Limiter reports %+v, want RulesRejected: %s", degraded, want)
	}

	h.heartbeat(h.activeRevision(), "a", "b")
	h.reconcile()
	h.hasCondition("partners", v1alpha1.ConditionReady, yes, v1alpha1.ReasonProgrammed)
	if c := meta.FindStatusCondition(h.limiter(limiterName.Name).Status.Conditions, v1alpha1.ConditionDegraded); c != nil {
		t.Errorf("the Limiter still reports %+v", c)
	}
}
