package ruleset

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	ctrl "sigs.k8s.io/controller-runtime"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/controllers/gatewayapi"
	"github.com/weir-dev/weir/test/fixture"
	"github.com/weir-dev/weir/test/fixture/kubetest"
)

// The CRDs of the Gateway API are installed, a route comes and goes: the policy follows without an edit and without a restart.
func TestSetupWithManager_APolicyFollowsItsRoute(t *testing.T) {
	h := newHarness(t)
	kube := kubetest.Kube(t)
	h.must(gatewayapi.AddToScheme(h.kube.Scheme()))
	h.withManager(time.Hour, func(next http.RoundTripper) http.RoundTripper { return next }, func(mgr ctrl.Manager) {
		api, err := discovery.NewDiscoveryClientForConfig(mgr.GetConfig())
		h.must(err)
		gateways := gatewayapi.New(api, mgr.GetCache(), mgr.GetAPIReader(), 50*time.Millisecond)
		h.must(mgr.Add(gateways))
		h.reconciler.Gateways, h.reconciler.Reporter.Gateways = gateways, gateways
	})
	fixture.Await(h, "a rule set is published", func() bool { return h.activeRevision() != "" })
	h.createPolicy("other", nil)
	h.createPolicy("checkout", func(s *v1alpha1.RateLimitPolicySpec) {
		s.TargetRefs = []v1alpha1.TargetReference{{Group: v1alpha1.GatewayGroup, Kind: v1alpha1.TargetHTTPRoute, Name: "checkout"}}
	})
	status := func(kind, reason, message string) func() bool {
		return func() bool {
			h.heartbeat(h.activeRevision(), "a")
			p := h.policy("checkout")
			c := meta.FindStatusCondition(p.Status.Conditions, kind)
			if c == nil || c.Reason != reason || !strings.Contains(c.Message, message) || len(p.Status.Ancestors) != 1 {
				return false
			}
			accepted := meta.FindStatusCondition(p.Status.Ancestors[0].Conditions, v1alpha1.ConditionAccepted)
			return (accepted.Status == yes) == slices.Contains([]string{"Programmed", "NoRoutes"}, reason) && p.Status.Ancestors[0].AncestorRef.Name == "checkout"
		}
	}
	fixture.Await(h, "the policy reports the missing CRDs", status("Ready", "TargetNotFound", "the CRDs of the Gateway API are not installed"))
	if limits := h.activeLimits(); len(limits) != 1 || limits["other"] == 0 {
		t.Errorf("the rule set has %v", limits)
	}

	h.must(kube.InstallGatewayAPI(t.Context()))
	t.Cleanup(func() { h.must(kube.UninstallGatewayAPI(context.Background())) })
	fixture.Await(h, "the policy reports the missing route", status("Ready", "TargetNotFound", "HTTPRoute "+h.namespace+"/checkout does not exist"))
	h.hasCondition("checkout", v1alpha1.ConditionReconciling, yes, "TargetNotFound")
	h.hasNoCondition("checkout", v1alpha1.ConditionStalled)

	created := route(h.namespace, "checkout")
	h.must(h.kube.Create(t.Context(), created))
	fixture.Await(h, "the policy reports that no Gateway has accepted the route", status("Ready", "NoRoutes", "no Gateway has accepted HTTPRoute "+h.namespace+"/checkout"))
	h.hasCondition("checkout", v1alpha1.ConditionAccepted, yes, "Accepted")
	h.hasCondition("checkout", v1alpha1.ConditionReconciling, yes, "NoRoutes")
	if limits := h.activeLimits(); len(limits) != 2 {
		t.Errorf("the rule set has %v: a gateway whose controller does not write the status would not be limited", limits)
	}
	created.Status.Parents = acceptedBy(gatewayv1.ParentReference{Name: "own"})
	h.must(h.kube.Status().Update(t.Context(), created))
	fixture.Await(h, "the policy is Ready", status("Ready", "Programmed", ""))
	if got := h.policy("checkout").Status.Effective.MatchedBy; got != "RouteName" {
		t.Errorf("matched by %q", got)
	}
	if limits := h.activeLimits(); len(limits) != 2 {
		t.Errorf("the rule set has %v", limits)
	}

	h.routesOfAnotherNamespaceInherit()

	h.must(h.kube.Delete(t.Context(), route(h.namespace, "checkout")))
	fixture.Await(h, "the policy reports the deleted route", status("Ready", "TargetNotFound", "does not exist"))
	fixture.Await(h, "the rule is gone", func() bool { return len(h.activeLimits()) == 1 })
}

// routesOfAnotherNamespaceInherit attaches a route of another namespace to a Gateway with a policy, and deletes both again.
func (h *harness) routesOfAnotherNamespaceInherit() {
	h.Helper()
	own := &gatewayv1.Gateway{ObjectMeta: metav1.ObjectMeta{Namespace: h.namespace, Name: "own"}}
	own.Spec = gatewayv1.GatewaySpec{GatewayClassName: "any", Listeners: []gatewayv1.Listener{{Name: "http", Port: 80, Protocol: "HTTP"}}}
	h.must(h.kube.Create(h.Context(), own))
	h.createPolicy("inherited", func(s *v1alpha1.RateLimitPolicySpec) {
		s.TargetRefs = []v1alpha1.TargetReference{{Group: v1alpha1.GatewayGroup, Kind: v1alpha1.TargetGateway, Name: "own"}}
	})
	reports := func(want string) func() bool {
		return func() bool {
			h.heartbeat(h.activeRevision(), "a")
			ancestors := h.policy("inherited").Status.Ancestors
			return len(ancestors) == 1 && len(ancestors[0].Conditions) == 1 && strings.Contains(ancestors[0].Conditions[0].Message, want)
		}
	}
	fixture.Await(h, "the policy limits the route of its namespace", reports("one of the 1 routes that the Gateway has accepted from 1 namespace"))

	other := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: h.namespace + "-b"}}
	h.must(h.kube.Create(h.Context(), other))
	inherits := route(other.Name, "search")
	h.must(h.kube.Create(h.Context(), inherits))
	inherits.Status.Parents = acceptedBy(gatewayv1.ParentReference{Namespace: new(gatewayv1.Namespace(h.namespace)), Name: "own"})
	h.must(h.kube.Status().Update(h.Context(), inherits))
	fixture.Await(h, "a route of another namespace inherits the policy", reports("one of the 2 routes that the Gateway has accepted from 2 namespaces"))

	h.must(h.kube.Delete(h.Context(), inherits))
	fixture.Await(h, "the policy reports that the route is deleted", reports("1 routes"))
	h.must(h.kube.Delete(h.Context(), h.policy("inherited")))
	h.must(h.kube.Delete(h.Context(), own))
}

// acceptedBy returns the status of a route that a gateway has accepted.
func acceptedBy(parent gatewayv1.ParentReference) []gatewayv1.RouteParentStatus {
	return []gatewayv1.RouteParentStatus{{
		ParentRef: parent, ControllerName: "example.com/gateway",
		Conditions: []metav1.Condition{{Type: "Accepted", Status: yes, Reason: "Accepted", LastTransitionTime: metav1.Now()}},
	}}
}

func route(namespace, name string) *gatewayv1.HTTPRoute {
	return &gatewayv1.HTTPRoute{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}
