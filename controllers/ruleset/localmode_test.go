package ruleset

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/controlplane"
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

func TestReporter_ReportsPoliciesWithManyIdentifiers(t *testing.T) {
	h := newHarness(t)
	h.createPolicy("daily", nil)
	h.createPolicy("hourly", nil)
	h.reconcile()
	revision := h.activeRevision()
	for _, test := range []struct {
		a, b           limiter.Crowding
		reason, begins string
	}{
		{limiter.NearMaximum, "", "ManyIdentifiers", "the policy has 80 % of the counters that spec.identifiers.max"},
		{limiter.NearMaximum, limiter.NearMemory, "ManyIdentifiers", "Redis fills up, and counters of this policy take much of it"},
		{limiter.OverMaximum, limiter.NearMemory, "IdentifierOverflow", "the policy has reached spec.identifiers.max of the Limiter"},
		{limiter.NearMaximum, limiter.OverMemory, "IdentifierOverflow", "Redis is nearly full, and counters of this policy take much of it"},
	} {
		for id, is := range map[string]limiter.Crowding{"a": test.a, "b": test.b} {
			h.must(h.exchange.Heartbeat(h.Context(), controlplane.Replica{
				ID: id, Revision: revision, Mode: "redis", Crowded: map[string]limiter.Crowding{h.namespace + "/daily": is, "shop/deleted": is},
			}))
		}
		h.reconcile()
		h.hasCondition("daily", v1alpha1.ConditionDegraded, yes, test.reason)
		if got := h.message("daily", v1alpha1.ConditionDegraded); !strings.HasPrefix(got, test.begins) {
			t.Errorf("%q and %q: message %q, want that it begins with %q", test.a, test.b, got, test.begins)
		}
		h.hasCondition("daily", v1alpha1.ConditionReady, yes, v1alpha1.ReasonProgrammed)
		h.hasNoCondition("hourly", v1alpha1.ConditionDegraded)
	}
	h.heartbeat(revision, "a", "b")
	h.reconcile()
	h.hasNoCondition("daily", v1alpha1.ConditionDegraded)
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
