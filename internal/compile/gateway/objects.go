// Package gateway has the objects of the Gateway API that policies can target, and resolves the targets of policies to routes.
package gateway

import (
	"errors"
	"time"

	"github.com/weir-dev/weir/api/v1alpha1/policyapi"
	"github.com/weir-dev/weir/limiter/rules"
)

// Objects are the objects of the Gateway API that policies can target.
type Objects struct {
	Routes       []Route
	Gateways     []Gateway
	ListenerSets []ListenerSet
	Grants       []Grant
	// Missing lists the kinds whose CRDs are not installed.
	Missing []policyapi.TargetKind
	// Unreadable is why the objects cannot be read; nil if they can. Until then, each policy with targets keeps its rule in Previous, and so does
	// the table of routes. It is ErrGatewaysPending for a short time after the start.
	Unreadable error
	Previous   rules.Set
	// Version differs if any object or Unreadable differs from that of other Objects with a Version. It is 0 if it is unknown.
	Version uint64
}

// ErrGatewaysPending means that the objects of the Gateway API are being listed.
var ErrGatewaysPending = errors.New("the objects of the Gateway API have not been listed yet")

// Route is an HTTPRoute or a GRPCRoute.
type Route struct {
	Kind            policyapi.TargetKind
	Namespace, Name string
	// Rules has the names of the rules that have a name.
	Rules []string
	// Parents are the Gateways that have accepted the route.
	Parents []Parent
	// Elsewhere is true if a parent of another kind has accepted the route, such as a Service of a mesh.
	Elsewhere bool
	Created   time.Time
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
	Created         time.Time
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
	Namespaces    *policyapi.LabelSelector
	// Kinds of the routes that are permitted; empty for all.
	Kinds []policyapi.TargetKind
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

func (r *Route) rule() rules.Route {
	return rules.Route{Namespace: r.Namespace, Target: rules.RouteTarget(string(r.Kind), r.Name, "")}
}

// Key returns the key of the route.
func (r *Route) Key() Key { return Key{r.Kind, r.Namespace, r.Name} }
