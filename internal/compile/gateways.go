package compile

import (
	"cmp"
	"errors"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/limiter/rules"
)

// Gateways are the objects of the Gateway API that policies can target.
type Gateways struct {
	Routes       []Route
	Gateways     []Gateway
	ListenerSets []ListenerSet
	Grants       []Grant
	// Missing lists the kinds whose CRDs are not installed.
	Missing []v1alpha1.TargetKind
	// Unreadable is why the objects cannot be read; nil if they can. Until then, each policy with targets keeps its rule in Previous, and so does
	// the table of routes. It is ErrGatewaysPending for a short time after the start.
	Unreadable error
	Previous   rules.Set
}

// ErrGatewaysPending means that the objects of the Gateway API are being listed.
var ErrGatewaysPending = errors.New("the objects of the Gateway API have not been listed yet")

// Route is an HTTPRoute or a GRPCRoute.
type Route struct {
	Kind            v1alpha1.TargetKind
	Namespace, Name string
	// Rules has the names of the rules that have a name.
	Rules []string
	// Parents are the Gateways that have accepted the route.
	Parents []Parent
	Created time.Time
	// Hostnames of the route; empty for those of the listener.
	Hostnames []string
	// Matches of all rules, in their order.
	Matches []RouteMatch
}

// RouteMatch selects requests of a route.
type RouteMatch struct {
	// Rule is the name of the rule, or "".
	Rule string
	// RouteMatch has no Route.
	rules.RouteMatch
}

// Parent is a Gateway or a ListenerSet that has accepted a route, on one listener, or on several if Listener is empty.
type Parent struct {
	Namespace, Gateway, Listener string
	// Port is the port of the listeners; 0 for any.
	Port int32
	// ListenerSet replaces Gateway.
	ListenerSet string
	// Controller is the name of the controller of the gateway.
	Controller string
}

// Gateway is a Gateway with its listeners.
type Gateway struct {
	Namespace, Name string
	Listeners       []Listener
}

// Listener is a listener of a Gateway or of a ListenerSet.
type Listener struct {
	Name     string
	Hostname string // empty for every host
	Port     int32
	// HTTP is true if the listener takes requests for routes for HTTP: not in another protocol, or if the gateway rejects the listener.
	HTTP bool
	// SameNamespace permits only routes of the namespace of the Gateway, and Namespaces those of the selected namespaces. If both are unset, all
	// routes are permitted.
	SameNamespace bool
	Namespaces    *metav1.LabelSelector
	// Kinds of the routes that are permitted; empty for all.
	Kinds []v1alpha1.TargetKind
}

// ListenerSet is a set of listeners that a Gateway has accepted.
type ListenerSet struct {
	Namespace, Name           string
	GatewayNamespace, Gateway string
	Listeners                 []Listener
	Created                   time.Time
}

// Grant permits the RateLimitPolicies in namespace From to target a Gateway in Namespace, or every Gateway there if Gateway is empty.
type Grant struct {
	Namespace, From, Gateway string
}

type objectKey struct {
	kind            v1alpha1.TargetKind
	namespace, name string
}

// gatewayIndex finds objects by name. The nil index knows no objects: see [Policies.Gateways].
type gatewayIndex struct {
	*Gateways

	routes   map[objectKey]*Route
	gateways map[objectKey]*Gateway
	sets     map[objectKey]*ListenerSet
	attached map[objectKey][]*Route // by Gateway
	resolved map[listenerKey]resolvedListener
}

func (g *Gateways) index() *gatewayIndex {
	if g == nil {
		return nil
	}
	x := &gatewayIndex{
		Gateways: g, routes: map[objectKey]*Route{}, gateways: map[objectKey]*Gateway{}, sets: map[objectKey]*ListenerSet{}, attached: map[objectKey][]*Route{},
		resolved: map[listenerKey]resolvedListener{},
	}
	for i := range g.ListenerSets {
		x.sets[objectKey{listenerSetKind, g.ListenerSets[i].Namespace, g.ListenerSets[i].Name}] = &g.ListenerSets[i]
	}
	for i := range g.Routes {
		r := &g.Routes[i]
		x.routes[objectKey{r.Kind, r.Namespace, r.Name}] = r
		for _, p := range r.Parents {
			key, known := x.gatewayOf(p)
			if !known {
				continue
			}
			if of := x.attached[key]; len(of) == 0 || of[len(of)-1] != r {
				x.attached[key] = append(of, r)
			}
		}
	}
	for i := range g.Gateways {
		x.gateways[objectKey{v1alpha1.TargetGateway, g.Gateways[i].Namespace, g.Gateways[i].Name}] = &g.Gateways[i]
	}
	return x
}

// listenerSetKind is the kind of a ListenerSet in an objectKey. Policies cannot target it.
const listenerSetKind v1alpha1.TargetKind = "ListenerSet"

// gatewayOf returns the Gateway of a parent. It is unknown for a ListenerSet that no Gateway has accepted.
func (x *gatewayIndex) gatewayOf(p Parent) (gateway objectKey, known bool) {
	if p.ListenerSet == "" {
		return objectKey{v1alpha1.TargetGateway, p.Namespace, p.Gateway}, true
	}
	set := x.sets[objectKey{listenerSetKind, p.Namespace, p.ListenerSet}]
	if set == nil {
		return objectKey{}, false
	}
	return objectKey{v1alpha1.TargetGateway, set.GatewayNamespace, set.Gateway}, true
}

// gateway returns the Gateway with the key; nil if it does not exist.
func (x *gatewayIndex) gateway(key objectKey) *Gateway { return x.gateways[key] }

// routesOf returns the routes that the Gateway has accepted.
func (x *gatewayIndex) routesOf(key objectKey) []*Route { return x.attached[key] }

// permits reports whether a ReferenceGrant permits policies of a namespace to target the Gateway.
func (x *gatewayIndex) permits(from string, gateway objectKey) bool {
	return slices.ContainsFunc(x.Grants, func(g Grant) bool {
		return g.Namespace == gateway.namespace && g.From == from && (g.Gateway == "" || g.Gateway == gateway.name)
	})
}

// isOn reports whether the Gateway has accepted the route on the listener, or on any if listener is empty. A route on several listeners is on
// each of them: the name of the route does not distinguish them, and a limit must not lose requests.
func (x *gatewayIndex) isOn(r *Route, gateway objectKey, listener string) bool {
	return slices.ContainsFunc(r.Parents, func(p Parent) bool {
		of, known := x.gatewayOf(p)
		if !known || of != gateway {
			return false
		}
		return listener == "" || p.ListenerSet == "" && (p.Listener == "" || p.Listener == listener)
	})
}

// isElsewhere reports whether requests for the route can also arrive at another Gateway, or at another listener if listener is not empty.
func (x *gatewayIndex) isElsewhere(r *Route, gateway objectKey, listener string) bool {
	return slices.ContainsFunc(r.Parents, func(p Parent) bool {
		of, known := x.gatewayOf(p)
		return known && (of != gateway || listener != "" && (p.ListenerSet != "" || p.Listener != listener))
	})
}

func (r *Route) rule() rules.Route {
	return rules.Route{Namespace: r.Namespace, Target: rules.RouteTarget(string(r.Kind), r.Name, "")}
}

// key returns the key of the route.
func (r *Route) key() objectKey { return objectKey{r.Kind, r.Namespace, r.Name} }

// sortRoutes sorts routes and removes duplicates.
func sortRoutes(routes []rules.Route) []rules.Route {
	slices.SortFunc(routes, compareRoutes)
	return slices.Compact(routes)
}

func compareRoutes(a, b rules.Route) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Target, b.Target))
}
