package routetable

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/weir-dev/weir/go/internal/compile/budget"
	"github.com/weir-dev/weir/go/internal/compile/gateway"
	"github.com/weir-dev/weir/go/internal/limiter/rules"
	"github.com/weir-dev/weir/go/internal/limiter/rules/route"
)

// maxGroups bounds the ports in the table of routes. Tenants choose those of ListenerSets. The last groups have all further ports: one those of
// Gateways, and one those that only ListenerSets have.
const maxGroups = 64

// listenerGroup has the routes of the listeners of a Gateway with one port, by the host of the listener.
type listenerGroup struct {
	gateway gateway.Key // without a name for the groups of all further ports
	port    int32       // 0 for any
	shared  bool        // only ListenerSets have it
	byHost  map[string]map[*gateway.Route][]string
	owners  map[string]string // the namespace of the first listener, by host
	rest    []*gateway.Route  // of listeners that do not fit
	// controller of each route on the Gateway. Another Gateway of the route can have another one.
	controller map[*gateway.Route]string
}

// group returns the group of a listener of owner, which is the Gateway or a ListenerSet.
func (b *tableBuilder) group(key, owner gateway.Key, port int32) *listenerGroup {
	added := listenerGroup{
		gateway: key, port: port, shared: owner != key, byHost: map[string]map[*gateway.Route][]string{}, owners: map[string]string{},
		controller: map[*gateway.Route]string{},
	}
	find := func() int {
		return slices.IndexFunc(b.groups, func(g listenerGroup) bool { return g.gateway == added.gateway && g.port == added.port })
	}
	index := find()
	switch {
	case index >= 0:
	case added.shared && len(b.groups) >= maxGroups-1: // after those of all Gateways
		added.gateway, added.port = gateway.ListenerSetKey("", ""), 0
		index = find()
	case !added.shared && len(b.groups) >= maxGroups-2:
		added.gateway, added.port = gateway.Key{}, 0
		index = find()
	}
	if index < 0 {
		index, b.groups = len(b.groups), append(b.groups, added)
	}
	return &b.groups[index]
}

// ruleGroups returns the groups of the table.
func (b *tableBuilder) ruleGroups() (list []rules.RouteGroup) {
	gateways := map[gateway.Key]int{}
	for i := range b.groups {
		g := &b.groups[i]
		if _, isListed := gateways[g.gateway]; !isListed {
			gateways[g.gateway] = len(gateways)
		}
		list = append(list, rules.RouteGroup{Gateway: gateways[g.gateway], Port: g.port, Shared: g.shared})
	}
	return list
}

// sharedListener is a listener of a ListenerSet.
type sharedListener struct {
	*gateway.Listener

	gateway, owner gateway.Key
	set            *gateway.ListenerSet
}

// sharedListeners returns the listeners of the ListenerSets of a Gateway.
func (b *tableBuilder) sharedListeners(key gateway.Key) (shared []sharedListener) {
	for i := range b.ListenerSets {
		set := &b.ListenerSets[i]
		if set.GatewayNamespace != key.Namespace || set.Gateway != key.Name {
			continue
		}
		for j := range set.Listeners {
			if !set.Listeners[j].HTTP {
				continue
			}
			shared = append(shared, sharedListener{&set.Listeners[j], key, gateway.ListenerSetKey(set.Namespace, set.Name), set})
		}
	}
	return shared
}

// leftListeners are listeners of ListenerSets that the table does not have.
type leftListeners struct {
	count int
	first string // ListenerSet
	port  int32  // of the first one
}

func (left *leftListeners) add(l *sharedListener) {
	if left.count++; left.count == 1 {
		left.first, left.port = l.owner.String(), l.Port
	}
}

// listenerBudget bounds the listeners of ListenerSets, which tenants create. It is apart from that of their routes, as restBudget.
func listenerBudget() budget.Budget {
	return budget.Budget{PerNamespace: budget.Usage{Bytes: 64 << 10, Rules: 500}, Total: budget.Usage{Bytes: 512 << 10, Rules: 5000}}
}

// fitListeners returns the listeners that fit into the table, the oldest first. The requests for the hosts of the others must not leave the limits of
// the Gateway: the oldest route of each takes those that no other route takes.
func (b *tableBuilder) fitListeners(listeners []sharedListener) (fitting []sharedListener) {
	slices.SortStableFunc(listeners, func(x, y sharedListener) int {
		return cmp.Or(x.set.Created.Compare(y.set.Created), cmp.Compare(x.set.Namespace, y.set.Namespace), cmp.Compare(x.set.Name, y.set.Name))
	})
	charges := make([]budget.Charge, len(listeners))
	for i := range listeners {
		l := &listeners[i]
		charges[i] = budget.Charge{
			Policy: fmt.Sprintf("%s/%s/%d", l.set.Namespace, l.set.Name, i), Namespace: l.set.Namespace, Created: l.set.Created,
			Usage: budget.Usage{Rules: 1, Bytes: sizeOf(rules.RouteListener{Host: l.Hostname, Groups: []int{maxGroups}, Hosts: []rules.RouteHost{}})},
		}
	}
	_, excesses := listenerBudget().Fit(charges)
	left := map[int]bool{}
	for _, e := range excesses {
		left[e.Index] = true
	}
	for i := range listeners {
		l := &listeners[i]
		if !left[i] {
			fitting = append(fitting, *l)
			continue
		}
		b.left.add(l)
		b.addRestOf(l, b.group(l.gateway, l.owner, l.Port))
	}
	return fitting
}

// addShared adds the routes of a listener of a ListenerSet. It is left out if its requests arrive at a port in the pod at which those of a listener
// of its Gateway can arrive too, for example at 10443 instead of 443, or those of an older listener of another namespace with the same host: its owner
// chooses port and host, and must not take these requests.
func (b *tableBuilder) addShared(l *sharedListener) {
	host := strings.ToLower(l.Hostname)
	index := slices.IndexFunc(b.groups, func(g listenerGroup) bool {
		taken := !g.shared || g.owners[host] != "" && g.owners[host] != l.owner.Namespace
		return g.gateway == l.gateway && taken && g.port != l.Port && route.ShareAPodPort(g.port, l.Port)
	})
	if index < 0 {
		b.addListener(l.gateway, l.owner, l.Listener)
		return
	}
	b.shifted.add(l)
	b.addRestOf(l, &b.groups[index])
}

// addRestOf makes the oldest route of a listener that is left out take the requests of a group that no other route takes.
func (b *tableBuilder) addRestOf(l *sharedListener, group *listenerGroup) {
	for route := range b.routesOn(l.gateway, l.owner, l.Listener) {
		if !slices.Contains(group.rest, route) {
			group.rest = append(group.rest, route)
		}
		return
	}
}

// addListeners adds the listeners of all groups to the table. Groups share equal ones.
func (b *tableBuilder) addListeners(table *tableEntries, fit *tableFit) {
	byHost := map[string][]int{} // listeners of the table, by host
	for i := range b.groups {
		g := &b.groups[i]
		rest := -1
		if len(g.rest) > 0 {
			rest = table.addRest(slices.MinFunc(g.rest, compareAge))
			if g.byHost[""] == nil {
				g.byHost[""] = map[*gateway.Route][]string{}
			}
		}
		for _, host := range sortedKeys(g.byHost) {
			hosts := g.hosts(table, g.byHost[host])
			if r := fit.firstWithoutPlace(g.byHost[host]); r != nil {
				hosts = addRest(hosts, host, table.addRest(r))
			}
			if rest >= 0 && (host == "" || strings.HasPrefix(host, "*")) {
				hosts = addRest(hosts, host, rest)
			}
			equal := slices.IndexFunc(byHost[host], func(index int) bool { return slices.EqualFunc(table.Listeners[index].Hosts, hosts, equalHosts) })
			if equal >= 0 {
				l := &table.Listeners[byHost[host][equal]]
				l.Groups = append(l.Groups, i)
				continue
			}
			byHost[host] = append(byHost[host], len(table.Listeners))
			table.Listeners = append(table.Listeners, rules.RouteListener{Groups: []int{i}, Host: host, Hosts: hosts})
		}
	}
	for i := range table.Listeners {
		if l := &table.Listeners[i]; len(l.Groups) == len(b.groups) {
			l.Groups = nil
		}
	}
}

func equalHosts(a, b rules.RouteHost) bool {
	return a.Host == b.Host && slices.Equal(a.Matches, b.Matches)
}
