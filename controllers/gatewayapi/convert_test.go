package gatewayapi

import (
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/weir-dev/weir/internal/compile/gateway"
	"github.com/weir-dev/weir/internal/stored"
	"github.com/weir-dev/weir/limiter/rules"
	_ "github.com/weir-dev/weir/limiter/rules/expr/celexpr" // policies of the tests have expressions
)

// The cache of the operator holds these objects.
func TestTrim_RemovesTheRest(t *testing.T) {
	refs := []gatewayv1.ParentReference{{Name: "own"}}
	http, grpc, gateway, set := &gatewayv1.HTTPRoute{}, &gatewayv1.GRPCRoute{}, &gatewayv1.Gateway{}, &gatewayv1.ListenerSet{}
	http.Spec = gatewayv1.HTTPRouteSpec{CommonRouteSpec: gatewayv1.CommonRouteSpec{ParentRefs: refs}, Rules: []gatewayv1.HTTPRouteRule{{Filters: []gatewayv1.HTTPRouteFilter{{}}}}}
	grpc.Spec = gatewayv1.GRPCRouteSpec{CommonRouteSpec: gatewayv1.CommonRouteSpec{ParentRefs: refs}, Rules: []gatewayv1.GRPCRouteRule{{Filters: []gatewayv1.GRPCRouteFilter{{}}}}}
	gateway.Spec = gatewayv1.GatewaySpec{GatewayClassName: "class", Listeners: []gatewayv1.Listener{{TLS: &gatewayv1.ListenerTLSConfig{}}}}
	gateway.Status.Conditions = []metav1.Condition{{Type: "Accepted"}}
	set.Spec.Listeners = []gatewayv1.ListenerEntry{{TLS: &gatewayv1.ListenerTLSConfig{}}}
	for _, o := range []any{http, grpc, gateway, set} {
		Trim(o)
	}
	if diff := cmp.Diff(gatewayv1.HTTPRouteSpec{Rules: []gatewayv1.HTTPRouteRule{{}}}, http.Spec); diff != "" {
		t.Errorf("HTTPRoute: %s", diff)
	}
	if diff := cmp.Diff(gatewayv1.GRPCRouteSpec{Rules: []gatewayv1.GRPCRouteRule{{}}}, grpc.Spec); diff != "" {
		t.Errorf("GRPCRoute: %s", diff)
	}
	if diff := cmp.Diff(gatewayv1.Gateway{Spec: gatewayv1.GatewaySpec{Listeners: []gatewayv1.Listener{{}}}}, *gateway); diff != "" {
		t.Errorf("Gateway: %s", diff)
	}
	if set.Spec.Listeners[0].TLS != nil {
		t.Errorf("ListenerSet: %+v", set.Spec)
	}
}

func TestGRPCMatches_HaveTheDefaultsOfTheGatewayAPI(t *testing.T) {
	got := grpcMatches("get", []gatewayv1.GRPCRouteMatch{
		{Headers: []gatewayv1.GRPCHeaderMatch{{Name: "X-Plan", Value: "free"}, {Name: "x-plan", Value: "paid"}}},
		{
			Method:  &gatewayv1.GRPCMethodMatch{Method: new("Get")},
			Headers: []gatewayv1.GRPCHeaderMatch{{Name: "x-b", Type: new(gatewayv1.GRPCHeaderMatchRegularExpression), Value: "c.*"}},
		},
	})
	every := rules.PathMatch{Type: "PathPrefix", Value: "/"}
	want := []gateway.RouteMatch{
		{Rule: "get", RouteMatch: rules.RouteMatch{Path: every, Headers: []rules.HeaderMatch{{Type: "Exact", Name: "x-plan", Value: "free"}}}},
		{Rule: "get", RouteMatch: rules.RouteMatch{Path: every, Suffix: "/Get", Headers: []rules.HeaderMatch{{Type: "RegularExpression", Name: "x-b", Value: "c.*"}}}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestConvert_ListenersAcceptRoutesOfTheirNamespacesOnly(t *testing.T) {
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
	for name, test := range map[string]struct {
		allowed *gatewayv1.AllowedRoutes
		same    bool
		matched *metav1.LabelSelector
	}{
		"the default":                        {nil, true, nil},
		"no namespaces":                      {&gatewayv1.AllowedRoutes{}, true, nil},
		"no choice":                          {&gatewayv1.AllowedRoutes{Namespaces: &gatewayv1.RouteNamespaces{}}, true, nil},
		"its own":                            {&gatewayv1.AllowedRoutes{Namespaces: &gatewayv1.RouteNamespaces{From: new(gatewayv1.NamespacesFromSame), Selector: selector}}, true, nil},
		"all":                                {&gatewayv1.AllowedRoutes{Namespaces: &gatewayv1.RouteNamespaces{From: new(gatewayv1.NamespacesFromAll), Selector: selector}}, false, nil},
		"selected ones":                      {&gatewayv1.AllowedRoutes{Namespaces: &gatewayv1.RouteNamespaces{From: new(gatewayv1.NamespacesFromSelector), Selector: selector}}, false, selector},
		"selected ones without any selector": {&gatewayv1.AllowedRoutes{Namespaces: &gatewayv1.RouteNamespaces{From: new(gatewayv1.NamespacesFromSelector)}}, true, nil},
	} {
		gateway := &gatewayv1.Gateway{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(time.Unix(1, 0))}}
		gateway.Spec.Listeners = []gatewayv1.Listener{{Name: "a", Protocol: "HTTP", AllowedRoutes: test.allowed}}
		converted := Convert(gateway).Gateways[0]
		if !converted.Created.Equal(time.Unix(1, 0)) {
			t.Errorf("%s: created at %v", name, converted.Created)
		}
		l := converted.Listeners[0]
		if l.SameNamespace != test.same || !reflect.DeepEqual(l.Namespaces, stored.LabelSelector(test.matched)) {
			t.Errorf("%s: %+v, want its own namespace %v and the selector %v", name, l, test.same, test.matched)
		}
	}
}

// The kinds of other groups can have the names of those of the Gateway API.
func TestConvert_ReadsAcceptedParentsOfTheGatewayAPIOnly(t *testing.T) {
	group, other, kind, set := new(gatewayv1.Group("gateway.networking.k8s.io")), new(gatewayv1.Group("example.com")), new(gatewayv1.Kind("Gateway")), new(gatewayv1.Kind("ListenerSet"))
	for name, test := range map[string]struct {
		group      *gatewayv1.Group
		kind       *gatewayv1.Kind
		accepted   metav1.ConditionStatus
		route, set bool
	}{
		"the defaults":     {nil, nil, "True", true, true},
		"a Gateway":        {group, kind, "True", true, true},
		"rejected":         {group, kind, "False", false, false},
		"not yet accepted": {group, kind, "Unknown", false, false},
		"another group":    {other, kind, "True", false, false},
		"a ListenerSet":    {group, set, "True", true, false},
		"another kind":     {nil, new(gatewayv1.Kind("Service")), "True", false, false},
	} {
		route, listeners := &gatewayv1.HTTPRoute{}, &gatewayv1.ListenerSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop"}}
		conditions := []metav1.Condition{{Type: "Accepted", Status: test.accepted}}
		route.Status.Parents = []gatewayv1.RouteParentStatus{{ParentRef: gatewayv1.ParentReference{Group: test.group, Kind: test.kind, Name: "a"}, Conditions: conditions}}
		listeners.Spec.ParentRef = gatewayv1.ParentGatewayReference{Group: test.group, Kind: test.kind, Name: "a"}
		listeners.Status.Conditions = conditions
		g := Convert(route, listeners)
		if got := len(g.Routes[0].Parents) == 1; got != test.route {
			t.Errorf("%s: the route has the parents %+v", name, g.Routes[0].Parents)
		}
		if got, want := g.Routes[0].Elsewhere, !test.route && test.accepted == "True"; got != want {
			t.Errorf("%s: the route is elsewhere: %t", name, got)
		}
		if got := len(g.ListenerSets) == 1; got != test.set {
			t.Errorf("%s: the ListenerSets are %+v", name, g.ListenerSets)
		} else if got && g.ListenerSets[0].GatewayNamespace != "shop" {
			t.Errorf("%s: the Gateway is in namespace %q", name, g.ListenerSets[0].GatewayNamespace)
		}
	}
}
