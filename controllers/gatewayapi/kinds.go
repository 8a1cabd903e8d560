package gatewayapi

import (
	"errors"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	gatewayv1beta1 "sigs.k8s.io/gateway-api/apis/v1beta1"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
)

// AddToScheme registers the types of the Gateway API.
func AddToScheme(scheme *runtime.Scheme) error {
	return errors.Join(gatewayv1.Install(scheme), gatewayv1beta1.Install(scheme))
}

// kind is a kind of objects that is watched.
type kind struct {
	version  string // group and version
	resource string
	target   v1alpha1.TargetKind // empty if policies cannot target it
	object   client.Object
	list     client.ObjectList
}

// kinds returns the kinds. ReferenceGrants are read in the version that all releases of the Gateway API serve.
func kinds() []kind {
	v1, v1beta1 := gatewayv1.GroupVersion.String(), gatewayv1beta1.GroupVersion.String()
	return []kind{
		{v1, "httproutes", v1alpha1.TargetHTTPRoute, &gatewayv1.HTTPRoute{}, &gatewayv1.HTTPRouteList{}},
		{v1, "grpcroutes", v1alpha1.TargetGRPCRoute, &gatewayv1.GRPCRoute{}, &gatewayv1.GRPCRouteList{}},
		{v1, "gateways", v1alpha1.TargetGateway, &gatewayv1.Gateway{}, &gatewayv1.GatewayList{}},
		{v1beta1, "referencegrants", "", &gatewayv1beta1.ReferenceGrant{}, &gatewayv1beta1.ReferenceGrantList{}},
	}
}

// Trim removes from an object what Read does not return. A cluster can have thousands of routes.
func Trim(object any) {
	switch o := object.(type) {
	case *gatewayv1.HTTPRoute:
		named := make([]gatewayv1.HTTPRouteRule, len(o.Spec.Rules))
		for i := range o.Spec.Rules {
			named[i].Name = o.Spec.Rules[i].Name
		}
		o.Spec = gatewayv1.HTTPRouteSpec{Rules: named}
	case *gatewayv1.GRPCRoute:
		named := make([]gatewayv1.GRPCRouteRule, len(o.Spec.Rules))
		for i := range o.Spec.Rules {
			named[i].Name = o.Spec.Rules[i].Name
		}
		o.Spec = gatewayv1.GRPCRouteSpec{Rules: named}
	case *gatewayv1.Gateway:
		named := make([]gatewayv1.Listener, len(o.Spec.Listeners))
		for i := range o.Spec.Listeners {
			named[i].Name = o.Spec.Listeners[i].Name
		}
		o.Spec, o.Status = gatewayv1.GatewaySpec{Listeners: named}, gatewayv1.GatewayStatus{}
	}
}

// convert adds what policies can depend on in an object to g.
func convert(object client.Object, g *compile.Gateways) {
	switch o := object.(type) {
	case *gatewayv1.HTTPRoute:
		route := compile.Route{Kind: v1alpha1.TargetHTTPRoute, Namespace: o.Namespace, Name: o.Name, Parents: parents(o.Namespace, o.Status.Parents)}
		for i := range o.Spec.Rules {
			route.Rules = appendName(route.Rules, o.Spec.Rules[i].Name)
		}
		g.Routes = append(g.Routes, route)
	case *gatewayv1.GRPCRoute:
		route := compile.Route{Kind: v1alpha1.TargetGRPCRoute, Namespace: o.Namespace, Name: o.Name, Parents: parents(o.Namespace, o.Status.Parents)}
		for i := range o.Spec.Rules {
			route.Rules = appendName(route.Rules, o.Spec.Rules[i].Name)
		}
		g.Routes = append(g.Routes, route)
	case *gatewayv1.Gateway:
		gateway := compile.Gateway{Namespace: o.Namespace, Name: o.Name}
		for i := range o.Spec.Listeners {
			gateway.Listeners = append(gateway.Listeners, string(o.Spec.Listeners[i].Name))
		}
		g.Gateways = append(g.Gateways, gateway)
	case *gatewayv1beta1.ReferenceGrant:
		g.Grants = append(g.Grants, grants(o)...)
	}
}

func appendName(names []string, name *gatewayv1.SectionName) []string {
	if name == nil {
		return names
	}
	return append(names, string(*name))
}

// parents returns the Gateways whose controllers have accepted a route. The status is used and not spec.parentRefs, because a Gateway need not
// accept routes that name it: the owner of a route could otherwise use up limits of a Gateway that never takes its requests.
func parents(namespace string, statuses []gatewayv1.RouteParentStatus) (all []compile.Parent) {
	for _, s := range statuses {
		ref := s.ParentRef
		if ref.Group != nil && *ref.Group != v1alpha1.GatewayGroup || ref.Kind != nil && *ref.Kind != gatewayv1.Kind(v1alpha1.TargetGateway) ||
			!meta.IsStatusConditionTrue(s.Conditions, string(gatewayv1.RouteConditionAccepted)) {
			continue
		}
		parent := compile.Parent{Namespace: namespace, Gateway: string(ref.Name)}
		if ref.Namespace != nil {
			parent.Namespace = string(*ref.Namespace)
		}
		if ref.SectionName != nil {
			parent.Listener = string(*ref.SectionName)
		}
		if !slices.Contains(all, parent) {
			all = append(all, parent)
		}
	}
	return all
}

// grants returns what a ReferenceGrant permits policies of Weir.
func grants(o *gatewayv1beta1.ReferenceGrant) (all []compile.Grant) {
	for _, from := range o.Spec.From {
		if from.Group != gatewayv1.Group(v1alpha1.GroupVersion.Group) || from.Kind != "RateLimitPolicy" {
			continue
		}
		for _, to := range o.Spec.To {
			if to.Group != v1alpha1.GatewayGroup || to.Kind != gatewayv1.Kind(v1alpha1.TargetGateway) {
				continue
			}
			grant := compile.Grant{Namespace: o.Namespace, From: string(from.Namespace)}
			if to.Name != nil {
				grant.Gateway = string(*to.Name)
			}
			all = append(all, grant)
		}
	}
	return all
}
