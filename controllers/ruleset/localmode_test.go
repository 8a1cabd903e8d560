package ruleset

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-dev/weir/api/v1alpha1"
)

func TestReporter_ReportsLocalModeOfAReadyPolicy(t *testing.T) {
	h := newHarness(t)
	h.createPolicy("daily", nil)
	h.createPolicy("bad", badPath)
	h.reconcile()
	revision := h.activeRevision()
	began := time.UnixMilli(1_790_000_000_123)
	h.heartbeat(revision, "a", "b", "c")
	h.reconcile()
	h.hasNoCondition("daily", v1alpha1.ConditionDegraded)

	alive := func() {
		h.heartbeat(revision, "a", "c")
		h.localHeartbeat(revision, began, "b")
		h.reconcile()
	}
	alive()
	h.hasCondition("daily", v1alpha1.ConditionDegraded, yes, v1alpha1.ReasonLocalMode)
	if got := h.message("daily", v1alpha1.ConditionDegraded); got != "1 of 3 replicas in local mode since 2026-09-21T14:13:20Z: check their connections to Redis" {
		t.Errorf("Degraded has message %q", got)
	}
	h.hasCondition("daily", v1alpha1.ConditionProgrammed, yes, v1alpha1.ReasonProgrammed)
	h.hasCondition("daily", v1alpha1.ConditionReady, yes, v1alpha1.ReasonProgrammed)
	h.hasNoCondition("daily", v1alpha1.ConditionReconciling)
	h.hasNoCondition("bad", v1alpha1.ConditionDegraded)
	steady := h.versions()
	for range 6 {
		alive()
	}
	h.restartOperator()
	alive()
	if diff := cmp.Diff(steady, h.versions()); diff != "" {
		t.Errorf("statuses were written although nothing changed (-before +after):\n%s", diff)
	}

	h.heartbeat(revision, "a", "b", "c")
	h.reconcile()
	h.hasNoCondition("daily", v1alpha1.ConditionDegraded)
	h.hasCondition("daily", v1alpha1.ConditionReady, yes, v1alpha1.ReasonProgrammed)
}

func TestReporter_ReportsDegradedWhileTheOperatorCannotReachRedis(t *testing.T) {
	h := newHarness(t)
	h.createPolicy("daily", nil)
	h.reconcile()
	h.localHeartbeat(h.activeRevision(), time.UnixMilli(1_790_000_000_123), "a")
	h.reconcile()
	h.hasCondition("daily", v1alpha1.ConditionDegraded, yes, v1alpha1.ReasonLocalMode)

	h.redis.Kill()
	h.reconcile()
	h.hasCondition("daily", v1alpha1.ConditionDegraded, yes, v1alpha1.ReasonStoreUnreachable)
	want := "the operator has not reached Redis since " + h.now.UTC().Format(time.RFC3339) +
		": replicas that cannot reach Redis either follow spec.onStoreFailure"
	if got := h.message("daily", v1alpha1.ConditionDegraded); got != want {
		t.Errorf("Degraded has message %q, want %q", got, want)
	}
	version := h.policy("daily").ResourceVersion
	for range 6 {
		h.reconcile()
	}
	if h.policy("daily").ResourceVersion != version {
		t.Error("the status was written again during one outage")
	}
	h.must(h.redis.Restart(t.Context()))
	h.reconcile()
	h.hasNoCondition("daily", v1alpha1.ConditionDegraded)
}
