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
	"github.com/weir-dev/weir/internal/compile/gateway"
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
		{v1, "listenersets", "", &gatewayv1.ListenerSet{}, &gatewayv1.ListenerSetList{}},
		{v1beta1, "referencegrants", "", &gatewayv1beta1.ReferenceGrant{}, &gatewayv1beta1.ReferenceGrantList{}},
	}
}

// Trim removes from an object what Read does not return. A cluster can have thousands of routes.
func Trim(object any) {
	switch o := object.(type) {
	case *gatewayv1.HTTPRoute:
		for i := range o.Spec.Rules {
			o.Spec.Rules[i] = gatewayv1.HTTPRouteRule{Name: o.Spec.Rules[i].Name, Matches: o.Spec.Rules[i].Matches}
		}
		o.Spec = gatewayv1.HTTPRouteSpec{Hostnames: o.Spec.Hostnames, Rules: o.Spec.Rules}
	case *gatewayv1.GRPCRoute:
		for i := range o.Spec.Rules {
			o.Spec.Rules[i] = gatewayv1.GRPCRouteRule{Name: o.Spec.Rules[i].Name, Matches: o.Spec.Rules[i].Matches}
		}
		o.Spec = gatewayv1.GRPCRouteSpec{Hostnames: o.Spec.Hostnames, Rules: o.Spec.Rules}
	case *gatewayv1.Gateway:
		for i := range o.Spec.Listeners {
			o.Spec.Listeners[i].TLS = nil
		}
		o.Spec, o.Status = gatewayv1.GatewaySpec{Listeners: o.Spec.Listeners}, gatewayv1.GatewayStatus{Listeners: o.Status.Listeners}
	case *gatewayv1.ListenerSet:
		for i := range o.Spec.Listeners {
			o.Spec.Listeners[i].TLS = nil
		}
	}
}

// convert adds what policies can depend on in an object to g.
func convert(object client.Object, g *gateway.Objects) {
	switch o := object.(type) {
	case *gatewayv1.HTTPRoute:
		route := gateway.Route{Kind: v1alpha1.TargetHTTPRoute, Namespace: o.Namespace, Name: o.Name, Parents: parents(o.Namespace, o.Status.Parents)}
		route.Elsewhere = acceptedElsewhere(o.Status.Parents)
		route.Created, route.Hostnames = o.CreationTimestamp.Time, texts(o.Spec.Hostnames)
		for i := range o.Spec.Rules {
			rule := &o.Spec.Rules[i]
			route.Rules = appendName(route.Rules, rule.Name)
			route.Matches = append(route.Matches, httpMatches(textOf(rule.Name), rule.Matches)...)
		}
		g.Routes = append(g.Routes, route)
	case *gatewayv1.GRPCRoute:
		route := gateway.Route{Kind: v1alpha1.TargetGRPCRoute, Namespace: o.Namespace, Name: o.Name, Parents: parents(o.Namespace, o.Status.Parents)}
		route.Elsewhere = acceptedElsewhere(o.Status.Parents)
		route.Created, route.Hostnames = o.CreationTimestamp.Time, texts(o.Spec.Hostnames)
		for i := range o.Spec.Rules {
			rule := &o.Spec.Rules[i]
			route.Rules = appendName(route.Rules, rule.Name)
			route.Matches = append(route.Matches, grpcMatches(textOf(rule.Name), rule.Matches)...)
		}
		g.Routes = append(g.Routes, route)
	case *gatewayv1.Gateway:
		gateway := gateway.Gateway{Namespace: o.Namespace, Name: o.Name, Created: o.CreationTimestamp.Time}
		for i := range o.Spec.Listeners {
			l := &o.Spec.Listeners[i]
			added := listener(l.Name, l.Hostname, l.Port, l.Protocol, l.AllowedRoutes)
			for j := range o.Status.Listeners {
				if status := &o.Status.Listeners[j]; status.Name == l.Name {
					added.HTTP = added.HTTP && serves(status.Conditions)
				}
			}
			gateway.Listeners = append(gateway.Listeners, added)
		}
		g.Gateways = append(g.Gateways, gateway)
	case *gatewayv1.ListenerSet:
		if set, accepted := listenerSet(o); accepted {
			g.ListenerSets = append(g.ListenerSets, set)
		}
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
func parents(namespace string, statuses []gatewayv1.RouteParentStatus) (all []gateway.Parent) {
	for _, s := range statuses {
		ref := s.ParentRef
		if isElsewhere(ref) || !meta.IsStatusConditionTrue(s.Conditions, string(gatewayv1.RouteConditionAccepted)) {
			continue
		}
		parent := gateway.Parent{Namespace: namespace, Controller: string(s.ControllerName)}
		if ref.Kind == nil || *ref.Kind == gatewayv1.Kind(v1alpha1.TargetGateway) {
			parent.Gateway = string(ref.Name)
		} else {
			parent.ListenerSet = string(ref.Name)
		}
		if ref.Namespace != nil {
			parent.Namespace = string(*ref.Namespace)
		}
		if ref.SectionName != nil {
			parent.Listener = string(*ref.SectionName)
		}
		if ref.Port != nil {
			parent.Port = *ref.Port
		}
		if !slices.Contains(all, parent) {
			all = append(all, parent)
		}
	}
	return all
}

// acceptedElsewhere reports whether a parent that is neither a Gateway nor a ListenerSet has accepted a route, such as a Service of a mesh.
func acceptedElsewhere(statuses []gatewayv1.RouteParentStatus) bool {
	return slices.ContainsFunc(statuses, func(s gatewayv1.RouteParentStatus) bool {
		return isElsewhere(s.ParentRef) && meta.IsStatusConditionTrue(s.Conditions, string(gatewayv1.RouteConditionAccepted))
	})
}

func isElsewhere(ref gatewayv1.ParentReference) bool {
	return ref.Group != nil && *ref.Group != v1alpha1.GatewayGroup ||
		ref.Kind != nil && *ref.Kind != gatewayv1.Kind(v1alpha1.TargetGateway) && *ref.Kind != listenerSetKind
}

// grants returns what a ReferenceGrant permits policies of Weir.
func grants(o *gatewayv1beta1.ReferenceGrant) (all []gateway.Grant) {
	for _, from := range o.Spec.From {
		if from.Group != gatewayv1.Group(v1alpha1.GroupVersion.Group) || from.Kind != "RateLimitPolicy" {
			continue
		}
		for _, to := range o.Spec.To {
			if to.Group != v1alpha1.GatewayGroup || to.Kind != gatewayv1.Kind(v1alpha1.TargetGateway) {
				continue
			}
			grant := gateway.Grant{Namespace: o.Namespace, From: string(from.Namespace)}
			if to.Name != nil {
				grant.Gateway = string(*to.Name)
			}
			all = append(all, grant)
		}
	}
	return all
}

// Convert returns what policies can depend on in the objects.
func Convert(objects ...client.Object) *gateway.Objects {
	g := &gateway.Objects{}
	for _, o := range objects {
		convert(o, g)
	}
	return g
}
