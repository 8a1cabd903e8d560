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

// Local mode and outages are in the status of the Limiter. The statuses of its policies are not written.
func TestReporter_LocalModeAndOutagesWriteOnlyTheStatusOfTheLimiter(t *testing.T) {
	h := newHarness(t)
	for _, name := range []string{"daily", "hourly", "weekly"} {
		h.createPolicy(name, nil)
	}
	h.createPolicy("bad", badPath)
	h.setReadyPods(3)
	h.reconcile()
	revision := h.activeRevision()
	began := time.UnixMilli(1_790_000_000_123)
	h.heartbeat(revision, "a", "b", "c")
	h.reconcile()
	steady := h.versions()
	check := func(when, reason, message string) {
		t.Helper()
		for range 6 {
			h.reconcile()
		}
		switch c := h.degraded(); {
		case reason == "" && c != nil, reason != "" && (c == nil || c.Reason != reason || !strings.HasPrefix(c.Message, message)):
			t.Errorf("%s: the Limiter has Degraded %+v, want %s %q", when, c, reason, message)
		}
		if diff := cmp.Diff(steady, h.versions()); diff != "" {
			t.Errorf("%s: statuses of policies were written (-before +after):\n%s", when, diff)
		}
	}
	h.heartbeat(revision, "a", "c")
	h.localHeartbeat(revision, began, "b")
	check("a replica in local mode", v1alpha1.ReasonLocalMode, "1 of 3 replicas in local mode since 2026-09-21T14:13:20Z: check their connections to Redis")
	h.restartOperator()
	check("the operator restarts", v1alpha1.ReasonLocalMode, "1 of 3 replicas in local mode since")
	h.redis.Kill()
	check("Redis is unavailable", v1alpha1.ReasonStoreUnreachable, "Redis cannot be used since ")
	h.restartOperator()
	check("the operator restarts in the outage", v1alpha1.ReasonStoreUnreachable, "Redis cannot be used since ")
	h.must(h.redis.Restart(t.Context()))
	h.reconcile() // restores the rules
	h.heartbeat(revision, "a", "b", "c")
	check("Redis is available again", "", "")
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
