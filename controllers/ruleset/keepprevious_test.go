package ruleset

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
)

// storedLimiters returns Limiters with an invalid selector, as an API server may have stored them before the CRD validated
// selectors.
type storedLimiters struct {
	client.Client

	selector *metav1.LabelSelector
}

func (s *storedLimiters) Get(ctx context.Context, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
	err := s.Client.Get(ctx, key, into, options...)
	if l, is := into.(*v1alpha1.Limiter); is && s.selector != nil {
		l.Spec.PolicySelector = s.selector
		l.Generation++ // of the edit
	}
	return err
}

// storedLimiters makes the Reconciler read Limiters from the returned client.
func (h *harness) storedLimiters() *storedLimiters {
	s := &storedLimiters{Client: h.kube}
	h.reconciler.Client = s
	return s
}

func invalidSelector() *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"team": "payments team"}}
}

func TestKeepPrevious_KeepsTheActiveRuleSetOfAnInvalidSelector(t *testing.T) {
	h := newHarness(t)
	h.createPolicy("daily", nil)
	h.createPolicy("bad", badPath)
	h.reconcile()
	h.heartbeat(h.activeRevision(), "a")
	h.reconcile()
	h.hasReady("True", "all replicas enforce generation 1")
	steady := h.versions()
	keeps := func(when string, limit int64) {
		t.Helper()
		h.heartbeat(h.activeRevision(), "a")
		h.reconcile()
		h.reconcile()
		if diff := cmp.Diff(map[string]int64{"daily": limit}, h.activeLimits()); diff != "" {
			t.Errorf("%s: active limits (-want +got):\n%s", when, diff)
		}
		c := h.degraded()
		if c == nil || c.Reason != v1alpha1.ReasonInvalidSelector ||
			!strings.HasPrefix(c.Message, "the previous rule set stays active until the selector is valid: spec.policySelector: ") {
			t.Errorf("%s: Degraded: %+v", when, c)
		}
	}
	limiters := h.storedLimiters()
	limiters.selector = invalidSelector()
	keeps("the selector becomes invalid", 100)
	if diff := cmp.Diff(steady, h.versions()); diff != "" {
		t.Errorf("statuses of policies that stay enforced were written (-before +after):\n%s", diff)
	}

	h.editPolicy("daily", limit(7))
	h.createPolicy("new", nil)
	keeps("a policy is edited", 100)
	h.hasReady("False", "0 of 1 replicas enforce generation 2")
	h.hasCondition("new", v1alpha1.ConditionReady, no, v1alpha1.ReasonNotSelected)
	h.hasCondition("bad", v1alpha1.ConditionStalled, yes, v1alpha1.ReasonInvalid)
	h.flushAll()
	h.reconcile()
	keeps("Redis lost its data", 100)
	h.hasReady("False", "0 of 1 replicas enforce generation 2")
	steady = h.versions()

	for _, when := range []string{"the operator restarts", "the operator restarts without the snapshot"} {
		if when != "the operator restarts" {
			h.must(h.kube.Delete(t.Context(), h.snapshot()))
		}
		h.restartOperator()
		limiters = h.storedLimiters()
		limiters.selector = invalidSelector()
		keeps(when, 100)
		if diff := cmp.Diff(steady, h.versions()); diff != "" {
			t.Errorf("%s: statuses were written although nothing changed (-before +after):\n%s", when, diff)
		}
	}

	limiters.selector = nil
	h.reconcile()
	if diff := cmp.Diff(map[string]int64{"daily": 7, "new": 100}, h.activeLimits()); diff != "" {
		t.Errorf("active limits with a valid selector (-want +got):\n%s", diff)
	}
	h.heartbeat(h.activeRevision(), "a")
	h.reconcile()
	h.hasReady("True", "all replicas enforce generation 2")
	if c := h.degraded(); c != nil {
		t.Errorf("Degraded: %+v", c)
	}
}

func TestKeepPrevious_PublishesNothingIfTheActiveRuleSetIsUnknown(t *testing.T) {
	h := newHarness(t)
	h.createPolicy("daily", nil)
	h.reconcile()
	h.must(h.kube.Delete(t.Context(), h.snapshot()))
	h.redis.Kill()
	h.restartOperator()
	h.storedLimiters().selector = invalidSelector()
	request := ctrl.Request{NamespacedName: limiterName}
	if _, err := h.reconciler.Reconcile(t.Context(), request); err == nil || !strings.Contains(err.Error(), "read the active rule set") {
		t.Errorf("error %v, want one: the active rule set is unknown while Redis is unavailable", err)
	}
	if h.state().ruleSet != nil {
		t.Error("there is a rule set to publish")
	}
	h.createPolicy("new", nil)
	if _, err := h.reconciler.Reconcile(t.Context(), request); err == nil {
		t.Error("no error, want one: it must be tried again")
	}
	h.report()
	h.hasCondition("new", v1alpha1.ConditionReady, no, v1alpha1.ReasonNotSelected)
	h.hasCondition("daily", v1alpha1.ConditionReady, no, v1alpha1.ReasonStoreUnreachable)
}
