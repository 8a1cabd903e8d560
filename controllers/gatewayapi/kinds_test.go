package gatewayapi

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	gatewayv1beta1 "sigs.k8s.io/gateway-api/apis/v1beta1"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/api/v1alpha1/policyapi"
	"github.com/weir-dev/weir/internal/compile/gateway"
	"github.com/weir-dev/weir/limiter/rules"
)

// parent is what the controller of a Gateway reports about a route.
func parent(ref gatewayv1.ParentReference, accepted metav1.ConditionStatus) gatewayv1.RouteParentStatus {
	conditions := []metav1.Condition{{Type: "ResolvedRefs", Status: metav1.ConditionTrue}, {Type: "Accepted", Status: accepted}}
	return gatewayv1.RouteParentStatus{ParentRef: ref, ControllerName: "example.com/gateway", Conditions: conditions}
}

func objects() map[string]client.Object {
	route := &gatewayv1.HTTPRoute{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "checkout"}}
	route.Spec.Hostnames = []gatewayv1.Hostname{"shop.example"}
	route.Spec.ParentRefs = []gatewayv1.ParentReference{{Name: "own"}}
	route.Spec.Rules = []gatewayv1.HTTPRouteRule{{Name: new(gatewayv1.SectionName("pay"))}, {}, {Name: new(gatewayv1.SectionName("refund"))}}
	route.Status.Parents = []gatewayv1.RouteParentStatus{
		parent(gatewayv1.ParentReference{Name: "own"}, metav1.ConditionTrue),
		parent(gatewayv1.ParentReference{Name: "own"}, metav1.ConditionTrue), // another controller
		parent(gatewayv1.ParentReference{Name: "public", Namespace: new(gatewayv1.Namespace("infra")), SectionName: new(gatewayv1.SectionName("https"))}, metav1.ConditionTrue),
		parent(gatewayv1.ParentReference{Name: "refuses"}, metav1.ConditionFalse),
		parent(gatewayv1.ParentReference{Name: "mesh", Group: new(gatewayv1.Group("")), Kind: new(gatewayv1.Kind("Service"))}, metav1.ConditionTrue),
		parent(gatewayv1.ParentReference{Name: "set", Kind: new(gatewayv1.Kind("ListenerSet")), Port: new(gatewayv1.PortNumber(8443))}, metav1.ConditionTrue),
	}
	route.CreationTimestamp = metav1.Unix(7, 0)
	grpc := &gatewayv1.GRPCRoute{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "stock"}}
	grpc.Spec.Rules = []gatewayv1.GRPCRouteRule{{Name: new(gatewayv1.SectionName("get"))}}
	grpc.Status.Parents = []gatewayv1.RouteParentStatus{parent(gatewayv1.ParentReference{Name: "own"}, metav1.ConditionTrue)}
	gateway := &gatewayv1.Gateway{ObjectMeta: metav1.ObjectMeta{Namespace: "infra", Name: "public"}}
	gateway.Spec.Listeners = []gatewayv1.Listener{
		{Name: "http", Port: 80, Protocol: gatewayv1.HTTPProtocolType},
		{
			Name: "https", Port: 443, Protocol: gatewayv1.HTTPSProtocolType, Hostname: new(gatewayv1.Hostname("*.example")), TLS: &gatewayv1.ListenerTLSConfig{},
			AllowedRoutes: &gatewayv1.AllowedRoutes{
				Namespaces: &gatewayv1.RouteNamespaces{From: new(gatewayv1.NamespacesFromAll)}, Kinds: []gatewayv1.RouteGroupKind{{Kind: "HTTPRoute"}},
			},
		},
	}
	set := &gatewayv1.ListenerSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "set"}}
	set.Spec.ParentRef = gatewayv1.ParentGatewayReference{Name: "public", Namespace: new(gatewayv1.Namespace("infra"))}
	set.Spec.Listeners = []gatewayv1.ListenerEntry{{Name: "tls", Port: 8443, Protocol: gatewayv1.TLSProtocolType, TLS: &gatewayv1.ListenerTLSConfig{}, AllowedRoutes: &gatewayv1.AllowedRoutes{
		Namespaces: &gatewayv1.RouteNamespaces{From: new(gatewayv1.NamespacesFromSelector), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}},
	}}}
	set.Status.Conditions = []metav1.Condition{{Type: "Accepted", Status: metav1.ConditionTrue}}
	refused := &gatewayv1.ListenerSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "refused"}}
	refused.Spec.ParentRef.Name = "own"
	grant := &gatewayv1beta1.ReferenceGrant{ObjectMeta: metav1.ObjectMeta{Namespace: "infra", Name: "weir"}}
	from := func(group, kind, namespace string) gatewayv1beta1.ReferenceGrantFrom {
		return gatewayv1beta1.ReferenceGrantFrom{Group: gatewayv1.Group(group), Kind: gatewayv1.Kind(kind), Namespace: gatewayv1.Namespace(namespace)}
	}
	grant.Spec.From = []gatewayv1beta1.ReferenceGrantFrom{
		from("weir.dev", "RateLimitPolicy", "shop"), from("weir.dev", "Limiter", "shop"), from("example.com", "RateLimitPolicy", "blog"),
	}
	grant.Spec.To = []gatewayv1beta1.ReferenceGrantTo{
		{Group: "gateway.networking.k8s.io", Kind: "Gateway", Name: new(gatewayv1.ObjectName("public"))},
		{Group: "gateway.networking.k8s.io", Kind: "Gateway"},
		{Group: "", Kind: "Service"},
		{Group: "gateway.networking.k8s.io", Kind: "HTTPRoute"},
	}
	return map[string]client.Object{"route": route, "grpc": grpc, "gateway": gateway, "set": set, "refused": refused, "grant": grant}
}

func converted(of map[string]client.Object) (g gateway.Objects) {
	for _, name := range []string{"route", "grpc", "gateway", "set", "refused", "grant"} {
		convert(of[name], &g)
	}
	return g
}

func TestConvert_ReadsWhatPoliciesDependOn(t *testing.T) {
	every := func(rule string) gateway.RouteMatch {
		return gateway.RouteMatch{Rule: rule, RouteMatch: rules.RouteMatch{Path: rules.PathMatch{Type: "PathPrefix", Value: "/"}}}
	}
	const controller = "example.com/gateway"
	own := gateway.Parent{Namespace: "shop", Gateway: "own", Controller: controller}
	want := gateway.Objects{
		Routes: []gateway.Route{
			{Kind: "HTTPRoute", Namespace: "shop", Name: "checkout", Rules: []string{"pay", "refund"}, Elsewhere: true, Parents: []gateway.Parent{
				own,
				{Namespace: "infra", Gateway: "public", Listener: "https", Controller: controller},
				{Namespace: "shop", ListenerSet: "set", Port: 8443, Controller: controller},
			}, Created: time.Unix(7, 0), Hostnames: []string{"shop.example"}, Matches: []gateway.RouteMatch{every("pay"), every(""), every("refund")}},
			{Kind: "GRPCRoute", Namespace: "shop", Name: "stock", Rules: []string{"get"}, Parents: []gateway.Parent{own}, Matches: []gateway.RouteMatch{every("get")}},
		},
		Gateways: []gateway.Gateway{{Namespace: "infra", Name: "public", Listeners: []gateway.Listener{
			{Name: "http", Port: 80, HTTP: true, SameNamespace: true},
			{Name: "https", Port: 443, HTTP: true, Hostname: "*.example", Kinds: []v1alpha1.TargetKind{"HTTPRoute"}},
		}}},
		ListenerSets: []gateway.ListenerSet{{Namespace: "shop", Name: "set", GatewayNamespace: "infra", Gateway: "public", Listeners: []gateway.Listener{
			{Name: "tls", Port: 8443, Namespaces: &policyapi.LabelSelector{MatchLabels: map[string]string{"a": "b"}}},
		}}},
		Grants: []gateway.Grant{{Namespace: "infra", From: "shop", Gateway: "public"}, {Namespace: "infra", From: "shop"}},
	}
	if diff := cmp.Diff(want, converted(objects())); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestTrim_KeepsWhatPoliciesDependOn(t *testing.T) {
	trimmed := objects()
	for _, o := range trimmed {
		Trim(o)
	}
	if diff := cmp.Diff(converted(objects()), converted(trimmed)); diff != "" {
		t.Errorf("-before +after:\n%s", diff)
	}
	if route, is := trimmed["route"].(*gatewayv1.HTTPRoute); !is || route.Spec.ParentRefs != nil {
		t.Errorf("trimmed route: %+v", route)
	}
}

// Controllers write the statuses of routes often. Each change that is noticed compiles the policies of all Limiters.
func TestDiffers_IgnoresWhatPoliciesDoNotDependOn(t *testing.T) {
	route := func(edit func(*gatewayv1.HTTPRoute)) func(client.Object) {
		return func(o client.Object) {
			r, is := o.(*gatewayv1.HTTPRoute)
			if !is {
				t.Fatalf("%T is not an HTTPRoute", o)
			}
			edit(r)
		}
	}
	gateway := func(edit func(*gatewayv1.Listener)) func(client.Object) {
		return func(o client.Object) {
			g, is := o.(*gatewayv1.Gateway)
			if !is {
				t.Fatalf("%T is not a Gateway", o)
			}
			edit(&g.Spec.Listeners[0])
		}
	}
	change := func(name string, edit func(client.Object)) bool {
		before, after := objects()[name], objects()[name]
		edit(after)
		return differs(before, after)
	}
	for name, test := range map[string]struct {
		object string
		edit   func(client.Object)
		want   bool
	}{
		"nothing":       {"route", func(client.Object) {}, false},
		"an annotation": {"route", func(o client.Object) { o.SetAnnotations(map[string]string{"a": "b"}) }, false},
		"a condition":   {"route", route(func(r *gatewayv1.HTTPRoute) { r.Status.Parents[0].Conditions[0].Status = "False" }), false},
		"accepted":      {"route", route(func(r *gatewayv1.HTTPRoute) { r.Status.Parents[3].Conditions[1].Status = "True" }), true},
		"a name":        {"route", route(func(r *gatewayv1.HTTPRoute) { r.Spec.Rules[0].Name = nil }), true},
		"a listener":    {"gateway", gateway(func(l *gatewayv1.Listener) { l.Name = "web" }), true},
		"a port":        {"gateway", gateway(func(l *gatewayv1.Listener) { l.Port = 81 }), true},
		"a secret":      {"gateway", gateway(func(l *gatewayv1.Listener) { l.TLS = &gatewayv1.ListenerTLSConfig{} }), false},
		"a filter":      {"route", route(func(r *gatewayv1.HTTPRoute) { r.Spec.Rules[0].Filters = []gatewayv1.HTTPRouteFilter{{}} }), false},
		"a match": {"route", route(func(r *gatewayv1.HTTPRoute) {
			r.Spec.Rules[0].Matches = []gatewayv1.HTTPRouteMatch{{Method: new(gatewayv1.HTTPMethodGet)}}
		}), true},
	} {
		if got := change(test.object, test.edit); got != test.want {
			t.Errorf("%s: differs %v, want %v", name, got, test.want)
		}
	}
	if before, after := objects()["grant"], objects()["gateway"]; !differs(before, after) {
		t.Error("a ReferenceGrant does not differ from a Gateway")
	}
	if !differs("a", "b") {
		t.Error("objects of unknown types do not differ")
	}
}
