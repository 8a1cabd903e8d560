package gateway

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/weir-dev/weir/api/v1alpha1/policyapi"
)

// String returns "HTTPRoute shop/checkout".
func (k Key) String() string { return fmt.Sprintf("%s %s/%s", k.kind, k.Namespace, k.Name) }

// Key is the kind, the namespace and the name of an object of the Gateway API.
type Key struct {
	kind            policyapi.TargetKind
	Namespace, Name string
}

// Index finds objects by name. The nil Index has no objects: [Index.Resolve] then assumes that each route exists.
type Index struct {
	*Objects

	routes   map[Key]*Route
	gateways map[Key]*Gateway
	sets     map[Key]*ListenerSet
	attached map[Key][]*Route // by Gateway
	resolved map[listenerKey]*resolvedListener
	before   map[listenerKey]*resolvedListener // of the previous index; equal ones are shared
}

// Index returns the index of the objects, and nil for nil.
func (g *Objects) Index() *Index { return g.IndexAfter(nil) }

// IndexAfter is [Objects.Index] for objects that follow those of the previous index, which may be nil. It returns the previous index if the objects
// have its Version. The previous index must not be used otherwise.
func (g *Objects) IndexAfter(previous *Index) *Index {
	if g == nil {
		return nil
	}
	if previous != nil && g.Version != 0 && g.Version == previous.Version {
		return previous
	}
	x := &Index{
		Objects: g, routes: map[Key]*Route{}, gateways: map[Key]*Gateway{}, sets: map[Key]*ListenerSet{}, attached: map[Key][]*Route{},
		resolved: map[listenerKey]*resolvedListener{},
	}
	if previous != nil {
		x.before = previous.resolved
	}
	for i := range g.ListenerSets {
		x.sets[ListenerSetKey(g.ListenerSets[i].Namespace, g.ListenerSets[i].Name)] = &g.ListenerSets[i]
	}
	for i := range g.Routes {
		r := &g.Routes[i]
		x.routes[r.Key()] = r
		for _, p := range r.Parents {
			key, exists := x.gatewayOf(p)
			if !exists {
				continue
			}
			if routes := x.attached[key]; len(routes) == 0 || routes[len(routes)-1] != r {
				x.attached[key] = append(routes, r)
			}
		}
	}
	for i := range g.Gateways {
		x.gateways[NewKey(g.Gateways[i].Namespace, g.Gateways[i].Name)] = &g.Gateways[i]
	}
	return x
}

// NewKey returns the key of a Gateway.
func NewKey(namespace, name string) Key {
	return Key{policyapi.TargetGateway, namespace, name}
}

// ListenerSetKey returns the key of a ListenerSet.
func ListenerSetKey(namespace, name string) Key { return Key{listenerSetKind, namespace, name} }

// listenerSetKind is the kind of a ListenerSet in a [Key]. Policies cannot target it.
const listenerSetKind policyapi.TargetKind = "ListenerSet"

// gatewayOf returns the Gateway of a parent. It is unknown for a ListenerSet that no Gateway has accepted.
func (x *Index) gatewayOf(p Parent) (gateway Key, exists bool) {
	if p.ListenerSet == "" {
		return NewKey(p.Namespace, p.Gateway), true
	}
	set := x.sets[ListenerSetKey(p.Namespace, p.ListenerSet)]
	if set == nil {
		return Key{}, false
	}
	return NewKey(set.GatewayNamespace, set.Gateway), true
}

// Gateway returns the Gateway with the key; nil if it does not exist.
func (x *Index) Gateway(key Key) *Gateway { return x.gateways[key] }

// RoutesOf returns the routes that the Gateway has accepted.
func (x *Index) RoutesOf(key Key) []*Route { return x.attached[key] }

// permits reports whether a ReferenceGrant permits policies of a namespace to target the Gateway.
func (x *Index) permits(namespace string, gateway Key) bool {
	return slices.ContainsFunc(x.Grants, func(g Grant) bool {
		return g.Namespace == gateway.Namespace && g.From == namespace && (g.Gateway == "" || g.Gateway == gateway.Name)
	})
}

// isOn reports whether the Gateway has accepted the route on the listener, or on any if listener is empty. A route on several listeners is on
// each of them: the name of the route does not distinguish them, and a limit must not lose requests.
func (x *Index) isOn(r *Route, gateway Key, listener string) bool {
	return slices.ContainsFunc(r.Parents, func(p Parent) bool {
		key, exists := x.gatewayOf(p)
		if !exists || key != gateway {
			return false
		}
		return listener == "" || p.ListenerSet == "" && (p.Listener == "" || p.Listener == listener)
	})
}

// isElsewhere reports whether requests for the route can also arrive at another Gateway, or at another listener if listener is not empty.
func (x *Index) isElsewhere(r *Route, gateway Key, listener string) bool {
	return slices.ContainsFunc(r.Parents, func(p Parent) bool {
		key, exists := x.gatewayOf(p)
		return exists && (key != gateway || listener != "" && (p.ListenerSet != "" || p.Listener != listener))
	})
}

// maxInherited is the number of other namespaces whose Gateways a route inherits namespaced policies from. A request is charged to a bounded number of
// policies of each namespace, so the owner of a route must not choose the number of namespaces.
const maxInherited = 4

// inheritsFrom reports whether the route inherits the policies of Gateways in namespace. If Gateways of more than maxInherited other namespaces have
// accepted the route, those with the oldest Gateways apply: a new Gateway ends no limit of an older one.
func (x *Index) inheritsFrom(r *Route, namespace string) bool {
	if namespace == r.Namespace || len(r.Parents) <= maxInherited {
		return true
	}
	type owner struct {
		namespace string
		oldest    time.Time
	}
	var owners []owner
	for _, p := range r.Parents {
		key, exists := x.gatewayOf(p)
		gateway := x.gateways[key]
		if !exists || gateway == nil || key.Namespace == r.Namespace {
			continue
		}
		i := slices.IndexFunc(owners, func(o owner) bool { return o.namespace == key.Namespace })
		if i < 0 {
			owners = append(owners, owner{key.Namespace, gateway.Created})
		} else if gateway.Created.Before(owners[i].oldest) {
			owners[i].oldest = gateway.Created
		}
	}
	slices.SortFunc(owners, func(a, b owner) int { return cmp.Or(a.oldest.Compare(b.oldest), cmp.Compare(a.namespace, b.namespace)) })
	return slices.ContainsFunc(owners[:min(len(owners), maxInherited)], func(o owner) bool { return o.namespace == namespace })
}
