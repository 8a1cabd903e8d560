package ruleset

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/controllers/ruleset/publish"
)

func TestReconcile_ReportsAnotherCauseOfAnOutageOnce(t *testing.T) {
	h := newHarness(t)
	h.createPolicy("daily", nil)
	why := "secret weir-system/redis does not exist"
	h.state().publisher.Open = func(*v1alpha1.Limiter) (publish.Store, error) {
		return nil, publish.NewStoreError(v1alpha1.ReasonSecretNotFound, errors.New(why))
	}
	h.reconcile()
	began := " since " + h.now.UTC().Format(time.RFC3339)
	for _, why = range []string{"secret weir-system/redis does not exist", "secret weir-system/redis has no key password"} {
		h.reconcile()
		if want := "Redis cannot be used" + began + ": spec.redis: " + why; h.degraded().Message != want {
			t.Errorf("Degraded has message %q, want %q", h.degraded().Message, want)
		}
		h.hasCondition("daily", v1alpha1.ConditionReady, no, v1alpha1.ReasonStoreUnreachable)
		limiter, policies := h.limiter("default").ResourceVersion, h.versions()
		for range 10 {
			h.reconcile()
		}
		if h.limiter("default").ResourceVersion != limiter {
			t.Error("the Limiter's status was written again although the cause is the same")
		}
		if diff := cmp.Diff(policies, h.versions()); diff != "" {
			t.Errorf("the policies' statuses were written again although the cause is the same (-before +after):\n%s", diff)
		}
	}
}

func TestReconcile_EnforcedPoliciesAreNotReadyWithoutRedisAndReadyPods(t *testing.T) {
	h := newHarness(t)
	h.createPolicy("daily", nil)
	setPods := func(all, ready int32) {
		l := h.limiter("default")
		l.Status.Replicas, l.Status.ReadyReplicas = all, ready
		h.must(h.kube.Status().Update(t.Context(), l))
	}
	setPods(2, 2)
	h.reconcile()
	h.heartbeat(h.activeRevision(), "a", "b")
	h.reconcile()
	h.redis.Kill()
	h.reconcile()
	h.hasCondition("daily", v1alpha1.ConditionReady, yes, v1alpha1.ReasonProgrammed)
	setPods(2, 0)
	h.reconcile()
	h.hasCondition("daily", v1alpha1.ConditionReady, no, v1alpha1.ReasonStoreUnreachable)
}

func TestReconcile_EnforcedPoliciesStayReadyWhileOnlyTheOperatorLosesRedis(t *testing.T) {
	h := newHarness(t)
	h.createPolicy("daily", nil)
	h.createPolicy("edited", nil)
	h.setReadyPods(2)
	h.reconcile()
	h.heartbeat(h.activeRevision(), "a", "b")
	h.reconcile()
	h.redis.Kill()
	check := func(when string) {
		t.Helper()
		h.reconcile()
		for _, kind := range []string{v1alpha1.ConditionProgrammed, v1alpha1.ConditionReady} {
			h.hasCondition("daily", kind, yes, v1alpha1.ReasonProgrammed)
			h.hasCondition("edited", kind, no, v1alpha1.ReasonStoreUnreachable)
		}
		h.hasNoCondition("daily", v1alpha1.ConditionDegraded)
		h.hasNoCondition("daily", v1alpha1.ConditionReconciling)
		if got := h.limiter("default").Status.EnforcingReplicas; when == "the operator restarts" && got != 0 {
			t.Errorf("%d replicas enforce the edited rule set", got)
		}
		if t.Failed() {
			t.Fatal(when)
		}
	}
	h.editPolicy("edited", limit(7))
	check("a policy is edited")
	h.setReadyPods(4) // new pods start from the snapshot
	check("the Limiter scales")
	h.restartOperator()
	check("the operator restarts")
	h.editPolicy("daily", func(s *v1alpha1.RateLimitPolicySpec) { s.Window = "24h" }) // the same rule
	check("an edit that does not change the rule")
	h.editPolicy("daily", limit(7))
	h.reconcile()
	h.hasCondition("daily", v1alpha1.ConditionReady, no, v1alpha1.ReasonStoreUnreachable)
}
