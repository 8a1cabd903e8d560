// Package routetable builds the table of the routes of Gateways that do not name the route of a request.
//
// The table has the order of precedence of the Gateway API, and bounds what each namespace can add.
package routetable

import (
	"cmp"
	"iter"
	"slices"
	"strings"

	"github.com/weir-dev/weir/go/policyapi"
	"github.com/weir-dev/weir/go/internal/compile/gateway"
	"github.com/weir-dev/weir/go/internal/compile/labelselector"
	"github.com/weir-dev/weir/go/internal/limiter/rules"
)

// Build returns the table of the routes of Gateways, and describes the routes that it does not have. The labels of namespaces decide which
// routes a listener permits.
func Build(objects *gateway.Objects, gateways []policyapi.GatewayReference, namespaces map[string]map[string]string) (table *rules.RouteTable, leftOut string) {
	return newTableBuilder(objects, gateways, namespaces).build()
}

// tableBuilder collects the routes of listeners.
type tableBuilder struct {
	*gateway.Index

	missing    []gateway.Key // Gateways
	namespaces map[string]map[string]string
	groups     []listenerGroup
	left       leftListeners // those above the budget
	shifted    leftListeners // those at a port that a listener of the Gateway has in the pod
}

func newTableBuilder(objects *gateway.Objects, gateways []policyapi.GatewayReference, namespaces map[string]map[string]string) *tableBuilder {
	b := &tableBuilder{Index: objects.Index(), namespaces: namespaces}
	var shared []sharedListener
	for _, ref := range gateways {
		key := gateway.NewKey(ref.Namespace, ref.Name)
		gateway := b.Gateway(key)
		if gateway == nil {
			b.missing = append(b.missing, key)
			continue
		}
		for i := range gateway.Listeners {
			if l := &gateway.Listeners[i]; ref.SectionName == nil || *ref.SectionName == l.Name {
				b.addListener(key, key, l)
			}
		}
		if ref.SectionName == nil {
			shared = append(shared, b.sharedListeners(key)...)
		}
	}
	for _, l := range b.fitListeners(shared) { // after those of all Gateways, whose groups come first
		b.addShared(&l)
	}
	return b
}

// addListener adds the routes of a listener of owner, which is the Gateway or a ListenerSet.
func (b *tableBuilder) addListener(key, owner gateway.Key, l *gateway.Listener) {
	if !l.HTTP {
		return
	}
	group, host := b.group(key, owner, l.Port), strings.ToLower(l.Hostname)
	hosts := group.byHost[host]
	if hosts == nil { // also without routes: the listener takes the requests of its host
		hosts = map[*gateway.Route][]string{}
		group.byHost[host], group.owners[host] = hosts, owner.Namespace
	}
	for route, parent := range b.routesOn(key, owner, l) {
		group.controller[route] = parent.Controller
		for _, name := range intersect(host, route.Hostnames) {
			if !slices.Contains(hosts[route], name) {
				hosts[route] = append(hosts[route], name)
			}
		}
	}
}

// routesOn returns the routes on a listener of owner that have matches, with the parents by which they are on it. Gateways write nothing for a route
// without matches, so that less specific hosts take the requests.
func (b *tableBuilder) routesOn(key, owner gateway.Key, l *gateway.Listener) iter.Seq2[*gateway.Route, *gateway.Parent] {
	return func(yield func(*gateway.Route, *gateway.Parent) bool) {
		for _, route := range b.RoutesOf(key) {
			index := slices.IndexFunc(route.Parents, func(p gateway.Parent) bool {
				object := gateway.NewKey(p.Namespace, p.Gateway)
				if p.ListenerSet != "" {
					object = gateway.ListenerSetKey(p.Namespace, p.ListenerSet)
				}
				return object == owner && (p.Listener == "" || p.Listener == l.Name) && (p.Port == 0 || p.Port == l.Port)
			})
			if index >= 0 && len(route.Matches) > 0 && b.allows(l, owner.Namespace, route) && !yield(route, &route.Parents[index]) {
				return
			}
		}
	}
}

// allows reports whether a listener in namespace permits the route.
func (b *tableBuilder) allows(l *gateway.Listener, namespace string, route *gateway.Route) bool {
	if len(l.Kinds) > 0 && !slices.Contains(l.Kinds, route.Kind) {
		return false
	}
	switch {
	case l.SameNamespace:
		return route.Namespace == namespace
	case l.Namespaces != nil:
		selects := labelselector.Lower(l.Namespaces).Selects(&rules.Namespace{Labels: b.namespaces[route.Namespace]})
		return selects && labelselector.Validate(l.Namespaces) == nil
	default:
		return true
	}
}

// intersect returns the hosts of requests that both a listener and a route accept, in lower case; "" stands for every host. The host of the
// listener is in lower case.
func intersect(listener string, hostnames []string) (hosts []string) {
	if len(hostnames) == 0 {
		return []string{listener}
	}
	for _, name := range hostnames {
		name = strings.ToLower(name)
		switch {
		case listener == "" || listener == name || contains(listener, name):
			hosts = append(hosts, name)
		case contains(name, listener):
			hosts = append(hosts, listener)
		}
	}
	return hosts
}

// contains reports whether a wildcard such as *.shop.example has the name, which can be a wildcard too.
func contains(wildcard, name string) bool {
	suffix, isWildcard := strings.CutPrefix(wildcard, "*")
	return isWildcard && strings.HasSuffix(name, suffix)
}

func compareAge(a, b *gateway.Route) int {
	return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Kind, b.Kind))
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
