package ruleset

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-dev/weir/api/v1alpha1"
)

// pods tells the Limiter's status how many are ready, as the controller of its Deployment does.
func (h *harness) pods(ready int32) {
	h.Helper()
	l := h.limiter("default")
	l.Status.ReadyReplicas = ready
	h.must(h.kube.Status().Update(h.Context(), l))
}

func (h *harness) saysReady(status, message string) {
	h.Helper()
	p := h.policy("daily")
	for _, c := range p.Status.Conditions {
		if c.Type == v1alpha1.ConditionReady && (string(c.Status) != status || c.Message != message || c.ObservedGeneration != p.Generation) {
			h.Errorf("Ready=%s %q of generation %d, want %s %q of %d", c.Status, c.Message, c.ObservedGeneration, status, message, p.Generation)
		}
	}
}

func TestAReplicaThatIsCutOffIsMissedAsLongAsItsPodIsReady(t *testing.T) {
	h := newHarness(t)
	h.create("daily", nil)
	h.pods(3)
	h.reconcile()
	old := h.current()
	h.saysReady("False", "0 of 3 replicas enforce generation 1")
	h.beat(old, "a", "b", "c")
	h.reconcile()
	h.saysReady("True", "3 of 3 replicas enforce generation 1")

	h.edit("daily", limit(7))
	h.flushAll() // of the heartbeat of c, too
	h.reconcile()
	for range 20 {
		h.beat(h.current(), "a", "b")
		h.reconcile()
	}
	h.saysReady("False", "2 of 3 replicas enforce generation 2")
	h.says("daily", v1alpha1.ConditionProgrammed, no, v1alpha1.ReasonPending)
	if l := h.policy("daily").Status.Limiters; len(l) != 1 || l[0].Acknowledged != 2 || l[0].Replicas != 3 {
		t.Errorf("limiters %+v", l)
	}
	h.restart() // another operator knows it, too
	h.reconcile()
	h.saysReady("False", "2 of 3 replicas enforce generation 2")
	policies, limiter := h.versions(), h.limiter("default").ResourceVersion
	for range 6 {
		h.beat(h.current(), "a", "b")
		h.reconcile()
	}
	if diff := cmp.Diff(policies, h.versions()); diff != "" || h.limiter("default").ResourceVersion != limiter {
		t.Errorf("statuses were written though nothing changed (-before +after):\n%s", diff)
	}
	if got := h.metric("weir_propagation_seconds", ""); got != 0 {
		t.Errorf("%v observations of an edit that one replica lacks", got)
	}

	h.pods(2) // the pod is gone
	h.reconcile()
	h.saysReady("True", "2 of 2 replicas enforce generation 2")
	h.pods(3) // another one, that tells of itself a moment later
	h.reconcile()
	h.saysReady("False", "2 of 3 replicas enforce generation 2")
	h.beat(h.current(), "d")
	h.reconcile()
	h.saysReady("True", "3 of 3 replicas enforce generation 2")
	h.pods(2) // a pod that ends: it is not ready any more, and says goodbye a moment later
	h.reconcile()
	h.saysReady("True", "3 of 3 replicas enforce generation 2")
	h.must(h.exchange.Remove(t.Context(), "d"))
	h.reconcile()
	h.saysReady("True", "2 of 2 replicas enforce generation 2")
}

// TestTheFirstReplicaAfterAnOutageIsNotAll edits a policy while Redis is away: those that have not come back serve the old one.
func TestTheFirstReplicaAfterAnOutageIsNotAll(t *testing.T) {
	for name, ready := range map[string]int32{"where a Deployment tells of pods": 3, "where none does": 0} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t)
			h.create("daily", nil)
			h.pods(ready)
			h.reconcile()
			h.beat(h.current(), "a", "b", "c")
			h.reconcile()
			h.saysReady("True", "3 of 3 replicas enforce generation 1")
			old := h.current()
			h.redis.Kill()
			h.edit("daily", limit(7))
			h.reconcile()
			h.says("daily", v1alpha1.ConditionReady, no, v1alpha1.ReasonStoreUnreachable)

			h.must(h.redis.Restart(t.Context()))
			h.reconcile()
			h.saysReady("False", "0 of 3 replicas enforce generation 2")
			h.beat(h.current(), "a")
			h.reconcile()
			h.saysReady("False", "1 of 3 replicas enforce generation 2")
			h.beat(old, "b", "c")
			h.reconcile()
			h.saysReady("False", "1 of 3 replicas enforce generation 2")
			h.beat(h.current(), "b", "c")
			h.reconcile()
			h.saysReady("True", "3 of 3 replicas enforce generation 2")
		})
	}
}

func TestAReplicaThatEndedInAnOutageIsNotMissedForLong(t *testing.T) {
	h := newHarness(t)
	h.create("daily", nil)
	h.reconcile()
	h.beat(h.current(), "a", "b")
	h.reconcile()
	h.redis.Kill()
	h.reconcile()
	h.must(h.redis.Restart(t.Context()))
	h.reconcile()
	h.beat(h.current(), "a")
	if again := h.reconcile().RequeueAfter; again > maxPendingWait {
		t.Errorf("again in %v only", again)
	}
	h.saysReady("False", "1 of 2 replicas enforce generation 1")
	h.now = h.now.Add(10 * time.Second)
	h.beat(h.current(), "a")
	h.reconcile()
	h.saysReady("True", "1 of 1 replicas enforce generation 1")
}
