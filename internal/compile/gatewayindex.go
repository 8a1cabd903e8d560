package compile

import (
	"fmt"
	"slices"

	"github.com/weir-dev/weir/api/v1alpha1"
)

// String returns "HTTPRoute shop/checkout".
func (k objectKey) String() string { return fmt.Sprintf("%s %s/%s", k.kind, k.namespace, k.name) }

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
		x.sets[listenerSetKey(g.ListenerSets[i].Namespace, g.ListenerSets[i].Name)] = &g.ListenerSets[i]
	}
	for i := range g.Routes {
		r := &g.Routes[i]
		x.routes[r.key()] = r
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
		x.gateways[gatewayKey(g.Gateways[i].Namespace, g.Gateways[i].Name)] = &g.Gateways[i]
	}
	return x
}

// gatewayKey returns the key of a Gateway.
func gatewayKey(namespace, name string) objectKey {
	return objectKey{v1alpha1.TargetGateway, namespace, name}
}

// listenerSetKey returns the key of a ListenerSet.
func listenerSetKey(namespace, name string) objectKey { return objectKey{listenerSetKind, namespace, name} }

// listenerSetKind is the kind of a ListenerSet in an objectKey. Policies cannot target it.
const listenerSetKind v1alpha1.TargetKind = "ListenerSet"

// gatewayOf returns the Gateway of a parent. It is unknown for a ListenerSet that no Gateway has accepted.
func (x *gatewayIndex) gatewayOf(p Parent) (gateway objectKey, known bool) {
	if p.ListenerSet == "" {
		return gatewayKey(p.Namespace, p.Gateway), true
	}
	set := x.sets[listenerSetKey(p.Namespace, p.ListenerSet)]
	if set == nil {
		return objectKey{}, false
	}
	return gatewayKey(set.GatewayNamespace, set.Gateway), true
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
