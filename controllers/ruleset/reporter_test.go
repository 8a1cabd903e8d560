package ruleset

import (
	"context"
	"testing"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/controllers/ruleset/publish"
	"github.com/weir-dev/weir/controllers/ruleset/report"
	"github.com/weir-dev/weir/controllers/ruleset/selection"
	"github.com/weir-dev/weir/internal/stored"
)

// staleCache is a client whose cache has these versions of policies and receives no others.
type staleCache struct {
	client.Client

	policies []*v1alpha1.RateLimitPolicy
}

func (c staleCache) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if policies, ok := list.(*v1alpha1.RateLimitPolicyList); ok {
		for _, p := range c.policies {
			policies.Items = append(policies.Items, *p)
		}
		return nil
	}
	return c.Client.List(ctx, list, options...)
}

// staleReporter gives the Reporter a cache that keeps the current versions of the policies.
func (h *harness) staleReporter(names ...string) stored.Policies {
	h.Helper()
	var shown stored.Policies
	for _, name := range names {
		shown.Namespaced = append(shown.Namespaced, h.policy(name))
	}
	h.reconciler.Reporter.Client = staleCache{h.kube, shown.Namespaced}
	return shown
}

// reportDelivery sets the state of the Limiter named default to this delivery of the policies, and reports it.
func (h *harness) reportDelivery(of stored.Policies, d publish.Delivery) ctrl.Result {
	h.Helper()
	l := h.state()
	l.ruleSet = l.compiler.Compile(l.ruleSet, h.limiter(limiterName.Name), of, selection.Hashes{})
	considered := selection.Generations(stored.Policies{}, of, nil)
	h.reconciler.states.Set(report.LimiterState{Limiter: limiterName, Considered: considered, RuleSet: l.ruleSet, Delivery: d})
	return h.report()
}

func TestReporter_WritesAStatusOnceWhileTheCacheIsStale(t *testing.T) {
	h := newHarness(t)
	h.createPolicy("daily", nil)
	shown := h.staleReporter("daily")
	round := func(d publish.Delivery) {
		h.now = h.now.Add(time.Second)
		h.reportDelivery(shown, d)
	}
	round(publish.Delivery{})
	version := h.policy("daily").ResourceVersion
	round(publish.Delivery{})
	if h.policy("daily").ResourceVersion != version {
		t.Error("the status was written twice over the same version")
	}
	round(publish.Delivery{Replicas: []publish.ServingReplica{{}}})
	h.hasCondition("daily", v1alpha1.ConditionReady, no, v1alpha1.ReasonPending) // a change is written nevertheless
}

func TestReporter_RetriesWhenThePolicyWasEdited(t *testing.T) {
	h := newHarness(t)
	h.createPolicy("daily", nil)
	shown := h.staleReporter("daily")
	h.editPolicy("daily", limit(7))
	again := h.reportDelivery(shown, publish.Delivery{Replicas: []publish.ServingReplica{{}}}).RequeueAfter
	if again != report.ConflictRetry {
		t.Errorf("requeued after %v, want %v", again, report.ConflictRetry)
	}
	if got := h.policy("daily").Status.ObservedGeneration; got != -1 {
		t.Errorf("a status for generation %d was written over a later one", got)
	}
}

func TestReporter_WaitsUntilTheLimiterHasConsideredThePolicy(t *testing.T) {
	h := newHarness(t)
	h.createPolicy("daily", nil)
	h.reconcile()
	h.heartbeat(h.activeRevision(), "a")
	h.reconcile()
	h.hasCondition("daily", v1alpha1.ConditionReady, yes, v1alpha1.ReasonProgrammed)
	h.editPolicy("daily", limit(7))
	h.createPolicy("new", nil)
	h.report()
	if got := h.policy("daily").Status.ObservedGeneration; got != 1 {
		t.Errorf("generation %d was reported before it was published", got)
	}
	if got := h.policy("new").Status.ObservedGeneration; got != -1 {
		t.Errorf("generation %d of a new policy was reported before the Limiter considered it", got)
	}
}

func TestReporter_WritesNoStatusToAnotherPolicyOfTheSameName(t *testing.T) {
	h := newHarness(t)
	h.createPolicy("daily", nil)
	shown := h.staleReporter("daily")
	old := shown.Namespaced[0]
	h.must(h.kube.Delete(t.Context(), old, client.Preconditions{UID: &old.UID}))
	for _, when := range []string{"deleted", "replaced"} {
		if when == "replaced" {
			h.createPolicy("daily", nil)
		}
		h.reconciler.Reporter = &report.Reporter{Client: h.reconciler.Reporter.Client, Clock: h.reconciler.Clock, States: h.reconciler.states}
		h.reportDelivery(shown, publish.Delivery{})
	}
	if c := h.policy("daily").Status.Conditions; len(c) != 0 {
		t.Errorf("the new policy has the status of the old one: %v", c)
	}
}
