package ruleset

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
)

// stored shows Limiters as an API server may have stored them that took a selector for which there is no label.
type stored struct {
	client.Client

	selector *v1alpha1.LabelSelector
}

func (s *stored) Get(ctx context.Context, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
	err := s.Client.Get(ctx, key, into, options...)
	if l, is := into.(*v1alpha1.Limiter); is && s.selector != nil {
		l.Spec.PolicySelector = s.selector
		l.Generation++ // of the edit
	}
	return err
}

// stored is what the Reconciler reads Limiters from.
func (h *harness) stored() *stored {
	s := &stored{Client: h.kube}
	h.reconciler.Client = s
	return s
}

func noSelector() *v1alpha1.LabelSelector {
	return &v1alpha1.LabelSelector{MatchLabels: map[string]v1alpha1.LabelValue{"team": "payments team"}}
}

func TestASelectorThatIsNoneLeavesInForceWhatWasSelected(t *testing.T) {
	h := newHarness(t)
	h.create("daily", nil)
	h.create("bad", badPath)
	h.reconcile()
	h.beat(h.current(), "a")
	h.reconcile()
	h.saysReady("True", "1 of 1 replicas enforce generation 1")
	steady := h.versions()
	holds := func(when string, limit int64) {
		t.Helper()
		h.beat(h.current(), "a")
		h.reconcile()
		h.reconcile()
		if diff := cmp.Diff(map[string]int64{"daily": limit}, h.published()); diff != "" {
			t.Errorf("%s: in force (-want +got):\n%s", when, diff)
		}
		c := h.degraded()
		if c == nil || c.Reason != v1alpha1.ReasonInvalidSelector ||
			!strings.HasPrefix(c.Message, "the previous rule set stays active until the selector is valid: spec.policySelector: ") {
			t.Errorf("%s: Degraded: %+v", when, c)
		}
	}
	broken := h.stored()
	broken.selector = noSelector()
	holds("the selector is broken", 100)
	if diff := cmp.Diff(steady, h.versions()); diff != "" {
		t.Errorf("statuses were written of policies that stay in force (-before +after):\n%s", diff)
	}

	h.edit("daily", limit(7))
	h.create("new", nil)
	holds("a policy is edited", 100)
	h.saysReady("False", "0 of 1 replicas enforce generation 2")
	h.says("new", v1alpha1.ConditionReady, no, v1alpha1.ReasonNotSelected)
	h.says("bad", v1alpha1.ConditionStalled, yes, v1alpha1.ReasonInvalid)
	h.flushAll()
	h.reconcile()
	holds("Redis has lost all", 100)
	h.saysReady("False", "0 of 1 replicas enforce generation 2")
	steady = h.versions()

	for _, when := range []string{"another operator takes over", "another one, without the snapshot"} {
		if when != "another operator takes over" {
			h.must(h.kube.Delete(t.Context(), h.kept()))
		}
		h.restart()
		broken = h.stored()
		broken.selector = noSelector()
		holds(when, 100)
		if diff := cmp.Diff(steady, h.versions()); diff != "" {
			t.Errorf("%s: statuses were written though nothing changed (-before +after):\n%s", when, diff)
		}
	}

	broken.selector = nil
	h.reconcile()
	if diff := cmp.Diff(map[string]int64{"daily": 7, "new": 100}, h.published()); diff != "" {
		t.Errorf("mended, in force (-want +got):\n%s", diff)
	}
	h.beat(h.current(), "a")
	h.reconcile()
	h.saysReady("True", "1 of 1 replicas enforce generation 2")
	if c := h.degraded(); c != nil {
		t.Errorf("Degraded: %+v", c)
	}
}

func TestAnOperatorThatCannotLearnWhatIsInForcePublishesNothing(t *testing.T) {
	h := newHarness(t)
	h.create("daily", nil)
	h.reconcile()
	h.must(h.kube.Delete(t.Context(), h.kept()))
	h.redis.Kill()
	h.restart()
	h.stored().selector = noSelector()
	request := ctrl.Request{NamespacedName: limiterName}
	if _, err := h.reconciler.Reconcile(t.Context(), request); err == nil || !strings.Contains(err.Error(), "read the active rule set") {
		t.Errorf("error %v, want one: what is in force is not known while Redis is away", err)
	}
	if h.one().ruleSet != nil {
		t.Error("there is something to publish")
	}
}
