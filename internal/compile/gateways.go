package compile

import (
	"cmp"
	"errors"
	"slices"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/limiter/rules"
)

// Gateways are the objects of the Gateway API that policies can target.
type Gateways struct {
	Routes   []Route
	Gateways []Gateway
	Grants   []Grant
	// Missing lists the kinds whose CRDs are not installed.
	Missing []v1alpha1.TargetKind
	// Unreadable is why the objects cannot be read; nil if they can. Until then, each policy with targets keeps its rule in Previous. It is
	// ErrGatewaysPending for a short time after the start.
	Unreadable error
	Previous   []rules.Rule
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
}

// Parent is a Gateway that has accepted a route, on one listener, or on several if Listener is empty.
type Parent struct {
	Namespace, Gateway, Listener string
}

// Gateway is a Gateway with the names of its listeners.
type Gateway struct {
	Namespace, Name string
	Listeners       []string
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
	attached map[objectKey][]*Route // by Gateway
	resolved map[listenerKey]resolvedListener
}

func (g *Gateways) index() *gatewayIndex {
	if g == nil {
		return nil
	}
	x := &gatewayIndex{
		Gateways: g, routes: map[objectKey]*Route{}, gateways: map[objectKey]*Gateway{}, attached: map[objectKey][]*Route{},
		resolved: map[listenerKey]resolvedListener{},
	}
	for i := range g.Routes {
		r := &g.Routes[i]
		x.routes[objectKey{r.Kind, r.Namespace, r.Name}] = r
		for _, p := range r.Parents {
			key := objectKey{v1alpha1.TargetGateway, p.Namespace, p.Gateway}
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

// permits reports whether a ReferenceGrant permits policies of a namespace to target the Gateway.
func (x *gatewayIndex) permits(from string, gateway objectKey) bool {
	return slices.ContainsFunc(x.Grants, func(g Grant) bool {
		return g.Namespace == gateway.namespace && g.From == from && (g.Gateway == "" || g.Gateway == gateway.name)
	})
}

// isOn reports whether the Gateway has accepted the route on the listener, or on any if listener is empty. A route on several listeners is on
// each of them: the name of the route does not distinguish them, and a limit must not lose requests.
func (r *Route) isOn(gateway objectKey, listener string) bool {
	return slices.ContainsFunc(r.Parents, func(p Parent) bool {
		return p.Namespace == gateway.namespace && p.Gateway == gateway.name && (listener == "" || p.Listener == "" || p.Listener == listener)
	})
}

// isElsewhere reports whether requests for the route can also arrive at another Gateway, or at another listener if listener is not empty.
func (r *Route) isElsewhere(gateway objectKey, listener string) bool {
	return slices.ContainsFunc(r.Parents, func(p Parent) bool {
		return p.Namespace != gateway.namespace || p.Gateway != gateway.name || listener != "" && p.Listener != listener
	})
}

func (r *Route) rule() rules.Route {
	return rules.Route{Namespace: r.Namespace, Target: rules.RouteTarget(string(r.Kind), r.Name, "")}
}

func compareRoutes(a, b rules.Route) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Target, b.Target))
}
