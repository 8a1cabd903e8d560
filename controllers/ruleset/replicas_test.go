package ruleset

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/limiter/controlplane"
	"github.com/weir-dev/weir/limiter/rules"
)

// setReadyPods sets the number of ready pods in the Limiter's status, as the deployment controller does.
func (h *harness) setReadyPods(ready int32) {
	h.Helper()
	h.update(func() error {
		l := h.limiter("default")
		l.Status.ReadyReplicas = ready
		return h.kube.Status().Update(h.Context(), l)
	})
}

func (h *harness) hasReady(status, message string) {
	h.Helper()
	p := h.policy("daily")
	for _, c := range p.Status.Conditions {
		if c.Type == v1alpha1.ConditionReady && (string(c.Status) != status || c.Message != message || c.ObservedGeneration != p.Generation) {
			h.Errorf("Ready=%s %q of generation %d, want %s %q of %d", c.Status, c.Message, c.ObservedGeneration, status, message, p.Generation)
		}
	}
}

func TestReconcile_ExpectsAReplicaWithoutHeartbeatWhileItsPodIsReady(t *testing.T) {
	h := newHarness(t)
	h.createPolicy("daily", nil)
	h.setReadyPods(3)
	h.reconcile()
	old := h.activeRevision()
	h.hasReady("False", "0 of 3 replicas enforce generation 1")
	h.heartbeat(old, "a", "b", "c")
	h.reconcile()
	h.hasReady("True", "all replicas enforce generation 1")

	h.editPolicy("daily", limit(7))
	h.flushAll() // including the heartbeat of c
	h.reconcile()
	for range 20 {
		h.heartbeat(h.activeRevision(), "a", "b")
		h.reconcile()
	}
	h.hasReady("False", "2 of 3 replicas enforce generation 2")
	h.hasCondition("daily", v1alpha1.ConditionProgrammed, no, v1alpha1.ReasonPending)
	if l := h.policy("daily").Status.Limiters; len(l) != 1 || *l[0].Acknowledged != 2 || *l[0].Replicas != 3 {
		t.Errorf("limiters %+v", l)
	}
	h.restartOperator() // the number comes from the status of the Limiter
	h.reconcile()
	h.hasReady("False", "2 of 3 replicas enforce generation 2")
	policies, limiter := h.versions(), h.limiter("default").ResourceVersion
	for range 6 {
		h.heartbeat(h.activeRevision(), "a", "b")
		h.reconcile()
	}
	if diff := cmp.Diff(policies, h.versions()); diff != "" || h.limiter("default").ResourceVersion != limiter {
		t.Errorf("statuses were written although nothing changed (-before +after):\n%s", diff)
	}
	if got := h.metric("weir_propagation_seconds", ""); got != 0 {
		t.Errorf("%v observations of an edit that one replica does not enforce", got)
	}

	h.setReadyPods(2) // the pod is gone
	h.reconcile()
	h.hasReady("True", "all replicas enforce generation 2")
	h.setReadyPods(3) // a new pod that sends its heartbeat later
	h.reconcile()
	h.hasReady("False", "2 of 3 replicas enforce generation 2")
	h.heartbeat(h.activeRevision(), "d")
	h.reconcile()
	h.hasReady("True", "all replicas enforce generation 2")
	h.setReadyPods(2) // a pod that ends is not ready first, and removes its heartbeat later
	h.reconcile()
	h.hasReady("True", "all replicas enforce generation 2")
	h.must(h.exchange.Remove(t.Context(), "d"))
	h.reconcile()
	h.hasReady("True", "all replicas enforce generation 2")
}

// A policy is edited while Redis is unavailable. The replicas that have not connected again enforce the old rule.
func TestReconcile_ExpectsAllReplicasAfterAnOutage(t *testing.T) {
	for name, ready := range map[string]int32{"the number of ready pods is known": 3, "the number of ready pods is unknown": 0} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t)
			h.createPolicy("daily", nil)
			h.setReadyPods(ready)
			h.reconcile()
			h.heartbeat(h.activeRevision(), "a", "b", "c")
			h.reconcile()
			h.hasReady("True", "all replicas enforce generation 1")
			old := h.activeRevision()
			h.redis.Kill()
			h.editPolicy("daily", limit(7))
			h.reconcile()
			h.hasCondition("daily", v1alpha1.ConditionReady, no, v1alpha1.ReasonStoreUnreachable)

			h.must(h.redis.Restart(t.Context()))
			h.reconcile()
			h.hasReady("False", "0 of 3 replicas enforce generation 2")
			h.heartbeat(h.activeRevision(), "a")
			h.reconcile()
			h.hasReady("False", "1 of 3 replicas enforce generation 2")
			h.heartbeat(old, "b", "c")
			h.reconcile()
			h.hasReady("False", "1 of 3 replicas enforce generation 2")
			h.heartbeat(h.activeRevision(), "b", "c")
			h.reconcile()
			h.hasReady("True", "all replicas enforce generation 2")
		})
	}
}

func TestReconcile_ExpectsAStoppedReplicaForTheRecoveryWindowOnly(t *testing.T) {
	h := newHarness(t)
	h.createPolicy("daily", nil)
	h.reconcile()
	h.heartbeat(h.activeRevision(), "a", "b")
	h.reconcile()
	h.redis.Kill()
	h.editPolicy("daily", limit(7))
	h.reconcile()
	h.must(h.redis.Restart(t.Context()))
	h.reconcile()
	h.heartbeat(h.activeRevision(), "a")
	if again := h.reconcile().RequeueAfter; again > maxPendingWait {
		t.Errorf("requeued after %v, want at most the longest wait for replicas", again)
	}
	h.hasReady("False", "1 of 2 replicas enforce generation 2")
	h.now = h.now.Add(10 * time.Second)
	h.heartbeat(h.activeRevision(), "a")
	h.reconcile()
	h.hasReady("True", "all replicas enforce generation 2")
}

// The report of a replica reaches the status through Redis. Idle or restarted replicas, and a restarted operator, write no status again.
func TestReconcile_ReportsThatARequestWasDecided(t *testing.T) {
	h := newHarness(t)
	h.createPolicy("daily", nil)
	h.createPolicy("hourly", nil)
	h.reconcile()
	decided := func(id string, bitmap ...byte) {
		h.Helper()
		h.must(h.exchange.Heartbeat(h.Context(), controlplane.Replica{ID: id, Revision: h.activeRevision(), Mode: "redis", Decided: append([]byte{}, bitmap...), Format: rules.Format}))
		h.reconcile()
	}
	h.heartbeat(h.activeRevision(), "a")
	h.reconcile()
	h.hasCondition("daily", v1alpha1.ConditionEnforced, metav1.ConditionUnknown, v1alpha1.ReasonNotReported)
	decided("a")
	h.hasCondition("daily", v1alpha1.ConditionEnforced, metav1.ConditionFalse, v1alpha1.ReasonNoRequests)
	decided("a", 1)
	h.hasCondition("daily", v1alpha1.ConditionEnforced, metav1.ConditionTrue, v1alpha1.ReasonRequestDecided)
	h.hasCondition("daily", v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonProgrammed)
	h.hasCondition("hourly", v1alpha1.ConditionEnforced, metav1.ConditionFalse, v1alpha1.ReasonNoRequests)
	h.hasCondition("hourly", v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonProgrammed)
	written := h.versions()
	decided("a", 1)
	h.must(h.exchange.Remove(h.Context(), "a"))
	decided("b") // after a restart
	h.restartOperator()
	h.reconcile()
	decided("b")
	if diff := cmp.Diff(written, h.versions()); diff != "" {
		t.Errorf("statuses were written again (-before +after):\n%s", diff)
	}
	h.editPolicy("daily", func(s *v1alpha1.RateLimitPolicySpec) { s.Limit = new(*s.Limit + 1) })
	h.reconcile()
	h.hasCondition("daily", v1alpha1.ConditionEnforced, metav1.ConditionUnknown, v1alpha1.ReasonPending)
	decided("b", 2)
	h.hasCondition("daily", v1alpha1.ConditionEnforced, metav1.ConditionFalse, v1alpha1.ReasonNoRequests)
	h.hasCondition("hourly", v1alpha1.ConditionEnforced, metav1.ConditionTrue, v1alpha1.ReasonRequestDecided)
	decided("b", 3)
	h.hasCondition("daily", v1alpha1.ConditionEnforced, metav1.ConditionTrue, v1alpha1.ReasonRequestDecided)
}
