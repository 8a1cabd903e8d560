package ruleset

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile/gateway"
)

// readGateways implements Gateways with the route checkout, or with an error.
type readGateways struct {
	namespace string
	parents   []gateway.Parent
	err       error
}

func (g *readGateways) Read(context.Context) (*gateway.Objects, uint64, error) {
	if g.err != nil {
		return nil, 0, g.err
	}
	return &gateway.Objects{Routes: []gateway.Route{{Kind: v1alpha1.TargetHTTPRoute, Namespace: g.namespace, Name: "checkout", Parents: g.parents}}}, 7, nil
}

func (g *readGateways) Changed() <-chan struct{} { return nil }

// The permissions of an operator can be older than its CRDs. Only policies with targets need the objects of the Gateway API.
func TestAddPrevious_KeepsTheRulesOfTargetsThatCannotBeRead(t *testing.T) {
	h := newHarness(t)
	gateways := &readGateways{namespace: h.namespace, parents: []gateway.Parent{{Namespace: h.namespace, Gateway: "own"}}}
	use := func() { h.reconciler.Gateways, h.reconciler.Reporter.Gateways = gateways, gateways }
	use()
	attach := func(s *v1alpha1.RateLimitPolicySpec) {
		s.TargetRefs = []v1alpha1.TargetReference{{Group: v1alpha1.GatewayGroup, Kind: v1alpha1.TargetHTTPRoute, Name: "checkout"}}
	}
	h.createPolicy("daily", nil)
	h.createPolicy("checkout", attach)
	enforces := func(when string, want map[string]int64) {
		t.Helper()
		h.reconcile()
		h.heartbeat(h.activeRevision(), "a")
		h.reconcile()
		if diff := cmp.Diff(want, h.activeLimits()); diff != "" {
			t.Errorf("%s: active limits (-want +got):\n%s", when, diff)
		}
	}
	accepted := func(when string) {
		t.Helper()
		p := h.policy("checkout")
		if !meta.IsStatusConditionTrue(p.Status.Conditions, v1alpha1.ConditionReady) ||
			!meta.IsStatusConditionTrue(p.Status.Ancestors[0].Conditions, v1alpha1.ConditionAccepted) {
			t.Errorf("%s: status %+v", when, p.Status)
		}
	}
	enforces("the route is known", map[string]int64{"daily": 100, "checkout": 100})
	accepted("the route is known")
	steady := h.versions()

	gateways.err = gateway.ErrGatewaysPending
	enforces("the routes are being listed", map[string]int64{"daily": 100, "checkout": 100})
	h.restartOperator()
	use()
	enforces("the operator restarts", map[string]int64{"daily": 100, "checkout": 100})
	accepted("the operator restarts")
	if diff := cmp.Diff(steady, h.versions()); diff != "" {
		t.Errorf("statuses were written, although nothing is wrong (-before +after):\n%s", diff)
	}

	gateways.err = errors.New("list gateways: forbidden")
	h.editPolicy("daily", limit(7))
	h.createPolicy("new", func(s *v1alpha1.RateLimitPolicySpec) {
		attach(s)
		s.Axis = v1alpha1.AxisIP
	})
	enforces("the routes cannot be read", map[string]int64{"daily": 7, "checkout": 100})
	accepted("the routes cannot be read")
	h.hasCondition("checkout", v1alpha1.ConditionDegraded, yes, v1alpha1.ReasonTargetsUnreadable)
	h.hasCondition("daily", v1alpha1.ConditionReady, yes, v1alpha1.ReasonProgrammed)
	h.hasNoCondition("daily", v1alpha1.ConditionDegraded)
	h.hasCondition("new", v1alpha1.ConditionReady, no, v1alpha1.ReasonTargetNotFound)
	for name, kind := range map[string]string{"checkout": v1alpha1.ConditionDegraded, "new": v1alpha1.ConditionReady} {
		if message := h.message(name, kind); !strings.Contains(message, "cannot read the objects of the Gateway API: list gateways: forbidden") {
			t.Errorf("%s: %s has message %q", name, kind, message)
		}
	}

	h.editPolicy("checkout", limit(8))
	enforces("a policy with targets is edited", map[string]int64{"daily": 7, "checkout": 100})
	if meta.IsStatusConditionTrue(h.policy("checkout").Status.Conditions, v1alpha1.ConditionReady) {
		t.Error("the edited policy is Ready, although its previous rule is enforced")
	}

	gateways.err = nil
	enforces("the route can be read again", map[string]int64{"daily": 7, "checkout": 8, "new": 100})
	accepted("the route can be read again")
	h.hasNoCondition("checkout", v1alpha1.ConditionDegraded)
}

// Whether the route has requests is unknown until the objects can be read again. It must not change meanwhile.
func TestReporter_KeepsThatAPolicyHasNoRoutes(t *testing.T) {
	h := newHarness(t)
	gateways := &readGateways{namespace: h.namespace}
	h.createPolicy("checkout", func(s *v1alpha1.RateLimitPolicySpec) {
		s.TargetRefs = []v1alpha1.TargetReference{{Group: v1alpha1.GatewayGroup, Kind: v1alpha1.TargetHTTPRoute, Name: "checkout"}}
	})
	settle := func() {
		t.Helper()
		h.reconciler.Gateways, h.reconciler.Reporter.Gateways = gateways, gateways
		h.reconcile()
		h.heartbeat(h.activeRevision(), "a")
		h.reconcile()
		h.hasCondition("checkout", v1alpha1.ConditionProgrammed, yes, v1alpha1.ReasonProgrammed)
		h.hasCondition("checkout", v1alpha1.ConditionReady, no, v1alpha1.ReasonNoRoutes)
	}
	settle()
	steady := h.versions()
	gateways.err = gateway.ErrGatewaysPending
	h.restartOperator()
	settle()
	if diff := cmp.Diff(steady, h.versions()); diff != "" {
		t.Errorf("statuses were written, although nothing is known to have changed (-before +after):\n%s", diff)
	}
}
