package ruleset

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-dev/weir/api/v1alpha1"
)

func TestLocalModeIsToldAndDoesNotMakeAPolicyUnready(t *testing.T) {
	h := newHarness(t)
	h.create("daily", nil)
	h.create("bad", badPath)
	h.reconcile()
	revision := h.current()
	began := time.UnixMilli(1_790_000_000_123)
	h.beat(revision, "a", "b", "c")
	h.reconcile()
	h.silent("daily", v1alpha1.ConditionDegraded)

	alive := func() {
		h.beat(revision, "a", "c")
		h.beatLocal(revision, began, "b")
		h.reconcile()
	}
	alive()
	h.says("daily", v1alpha1.ConditionDegraded, yes, v1alpha1.ReasonLocalMode)
	if got := h.message("daily", v1alpha1.ConditionDegraded); got != "1 of 3 replicas in local mode since 2026-09-21T14:13:20Z: check their connections to Redis" {
		t.Errorf("Degraded says %q", got)
	}
	h.says("daily", v1alpha1.ConditionProgrammed, yes, v1alpha1.ReasonProgrammed)
	h.says("daily", v1alpha1.ConditionReady, yes, v1alpha1.ReasonProgrammed)
	h.silent("daily", v1alpha1.ConditionReconciling)
	h.silent("bad", v1alpha1.ConditionDegraded)
	steady := h.versions()
	for range 6 {
		alive()
	}
	h.restart()
	alive()
	if diff := cmp.Diff(steady, h.versions()); diff != "" {
		t.Errorf("statuses were written though nothing changed (-before +after):\n%s", diff)
	}

	h.beat(revision, "a", "b", "c")
	h.reconcile()
	h.silent("daily", v1alpha1.ConditionDegraded)
	h.says("daily", v1alpha1.ConditionReady, yes, v1alpha1.ReasonProgrammed)
}

func TestDegradedStandsWhileTheOperatorCannotReachRedis(t *testing.T) {
	h := newHarness(t)
	h.create("daily", nil)
	h.reconcile()
	h.beatLocal(h.current(), time.UnixMilli(1_790_000_000_123), "a")
	h.reconcile()
	h.says("daily", v1alpha1.ConditionDegraded, yes, v1alpha1.ReasonLocalMode)

	h.redis.Kill()
	h.reconcile()
	h.says("daily", v1alpha1.ConditionDegraded, yes, v1alpha1.ReasonStoreUnreachable)
	want := "the operator has not reached Redis since " + h.now.UTC().Format(time.RFC3339) +
		": replicas that cannot reach Redis either follow spec.onStoreFailure"
	if got := h.message("daily", v1alpha1.ConditionDegraded); got != want {
		t.Errorf("Degraded says %q, want %q", got, want)
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
	h.silent("daily", v1alpha1.ConditionDegraded)
}
