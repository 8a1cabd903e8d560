package compile

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/limiter/rules"
)

// tableBudget bounds the table of routes. A match counts once for each host. As with policies, the oldest routes come first: a new route never
// displaces another one, and one namespace cannot fill the table.
func tableBudget() Budget {
	return Budget{
		PerNamespace: Usage{Bytes: 256 << 10, Rules: 2000, RegularExpressions: 100},
		Total:        Usage{Bytes: 2 << 20, Rules: 20_000, RegularExpressions: 2000},
	}
}

// routeTable returns the table of the routes of the Gateways in RouteMatching, nil if the list is empty, and which routes it does not have.
func (p Policies) routeTable() (table *rules.RouteTable, leftOut string) {
	switch {
	case len(p.RouteMatching) == 0 || p.Gateways == nil:
		return nil, ""
	case p.Gateways.Unreadable != nil:
		return p.Gateways.Previous.RouteTable, ""
	}
	return newTableBuilder(p).build()
}

// tableBuilder collects the routes of listeners.
type tableBuilder struct {
	*gatewayIndex

	missing    []objectKey // Gateways
	namespaces map[string]labels.Set
	byHost     map[string]map[*Route][]string // the hosts of routes, by the host of the listener
	controller map[*Route]string
}

func newTableBuilder(p Policies) *tableBuilder {
	b := &tableBuilder{
		gatewayIndex: p.Gateways.index(), namespaces: map[string]labels.Set{}, byHost: map[string]map[*Route][]string{}, controller: map[*Route]string{},
	}
	for _, n := range p.Namespaces {
		b.namespaces[n.Name] = n.Labels
	}
	for _, ref := range p.RouteMatching {
		key := objectKey{v1alpha1.TargetGateway, ref.Namespace, ref.Name}
		gateway := b.gateways[key]
		if gateway == nil {
			b.missing = append(b.missing, key)
			continue
		}
		for i := range gateway.Listeners {
			if l := &gateway.Listeners[i]; ref.SectionName == nil || *ref.SectionName == l.Name {
				b.addListener(key, key, l)
			}
		}
		for i := range b.ListenerSets {
			set := &b.ListenerSets[i]
			if ref.SectionName != nil || set.GatewayNamespace != ref.Namespace || set.Gateway != ref.Name {
				continue
			}
			for j := range set.Listeners {
				b.addListener(key, objectKey{listenerSetKind, set.Namespace, set.Name}, &set.Listeners[j])
			}
		}
	}
	return b
}

// addListener adds the routes of a listener of owner, which is the Gateway or a ListenerSet.
func (b *tableBuilder) addListener(gateway, owner objectKey, l *Listener) {
	if !l.HTTP {
		return
	}
	hosts := b.byHost[l.Hostname]
	if hosts == nil { // also without routes: the listener takes the requests of its host
		hosts = map[*Route][]string{}
		b.byHost[l.Hostname] = hosts
	}
	for _, route := range b.attached[gateway] {
		at := slices.IndexFunc(route.Parents, func(p Parent) bool {
			of := objectKey{v1alpha1.TargetGateway, p.Namespace, p.Gateway}
			if p.ListenerSet != "" {
				of = objectKey{listenerSetKind, p.Namespace, p.ListenerSet}
			}
			return of == owner && (p.Listener == "" || p.Listener == l.Name) && (p.Port == 0 || p.Port == l.Port)
		})
		if at < 0 || !b.allows(l, owner.namespace, route) {
			continue
		}
		b.controller[route] = route.Parents[at].Controller
		for _, host := range intersect(l.Hostname, route.Hostnames) {
			if !slices.Contains(hosts[route], host) {
				hosts[route] = append(hosts[route], host)
			}
		}
	}
}

// allows reports whether a listener in namespace permits the route.
func (b *tableBuilder) allows(l *Listener, namespace string, route *Route) bool {
	if len(l.Kinds) > 0 && !slices.Contains(l.Kinds, route.Kind) {
		return false
	}
	switch {
	case l.SameNamespace:
		return route.Namespace == namespace
	case l.Namespaces != nil:
		selector, err := metav1.LabelSelectorAsSelector(l.Namespaces)
		return err == nil && selector.Matches(b.namespaces[route.Namespace])
	default:
		return true
	}
}

// intersect returns the hosts of requests that both a listener and a route accept, in lower case; "" stands for every host.
func intersect(listener string, hostnames []string) (hosts []string) {
	listener = strings.ToLower(listener)
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
	suffix, is := strings.CutPrefix(wildcard, "*")
	name = strings.TrimPrefix(name, "*")
	return is && strings.HasSuffix(name, suffix) && len(name) > len(suffix)
}

// tableRoute is a route in the table, with the indexes of its matches there.
type tableRoute struct {
	*Route

	matches []int
}

func (b *tableBuilder) build() (*rules.RouteTable, string) {
	var routes []*Route
	usage := map[*Route]Usage{}
	for _, hosts := range b.byHost {
		for route, names := range hosts {
			if _, known := usage[route]; !known {
				routes = append(routes, route)
				usage[route] = usageOfRoute(route)
			}
			usage[route] = usage[route].Add(Usage{Rules: int64(len(names) * len(route.Matches))})
		}
	}
	slices.SortFunc(routes, compareAge)
	charges := make([]Charge, len(routes))
	for i, r := range routes {
		charges[i] = Charge{Policy: r.key().String(), Namespace: r.Namespace, Created: r.Created, Usage: usage[r]}
	}
	_, over := tableBudget().Fit(charges)
	out := map[*Route]bool{}
	for _, e := range over {
		out[routes[e.Index]] = true
	}
	table := &rules.RouteTable{Routes: []rules.Route{}, Matches: []rules.RouteMatch{}, Listeners: []rules.RouteListener{}}
	var kept []tableRoute
	var invalid []error
	for _, r := range routes {
		if !out[r] {
			matches, errs := addMatches(table, r)
			kept, invalid = append(kept, tableRoute{r, matches}), append(invalid, errs...)
		}
	}
	for _, listener := range sortedKeys(b.byHost) {
		table.Listeners = append(table.Listeners, rules.RouteListener{Host: strings.ToLower(listener), Hosts: b.hosts(table, b.byHost[listener], kept)})
	}
	return table, b.leftOut(over, charges, invalid)
}

// hosts returns the hosts of a listener with the matches of the routes, in order of precedence.
func (b *tableBuilder) hosts(table *rules.RouteTable, on map[*Route][]string, routes []tableRoute) []rules.RouteHost {
	matches := map[string][]int{}
	likeEnvoyGateway := map[string]bool{}
	for _, r := range routes {
		for _, host := range on[r.Route] {
			matches[host] = append(matches[host], r.matches...)
			likeEnvoyGateway[host] = likeEnvoyGateway[host] || b.controller[r.Route] == envoyGateway
		}
	}
	list := []rules.RouteHost{}
	for _, host := range sortedKeys(matches) {
		order := precedenceOf
		if likeEnvoyGateway[host] {
			order = precedenceInEnvoyGateway
		}
		slices.SortStableFunc(matches[host], func(i, j int) int { return order(&table.Matches[i], &table.Matches[j]) })
		list = append(list, rules.RouteHost{Host: host, Matches: matches[host]})
	}
	return list
}

// addMatches adds the matches of a route to the table, and returns their indexes, and an error for each match that limiters cannot compare.
func addMatches(table *rules.RouteTable, r *Route) (indexes []int, errs []error) {
	of := map[string]int{}
	for i := range r.Matches {
		m := &r.Matches[i]
		route, known := of[m.Rule]
		if !known {
			route = len(table.Routes)
			of[m.Rule] = route
			table.Routes = append(table.Routes, rules.Route{Namespace: r.Namespace, Target: rules.RouteTarget(string(r.Kind), r.Name, m.Rule)})
		}
		match := m.RouteMatch
		if err := match.Validate(); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", r.key(), err))
			continue
		}
		match.Route = route
		indexes = append(indexes, len(table.Matches))
		table.Matches = append(table.Matches, match)
	}
	return indexes, errs
}

// usageOfRoute returns what a route uses of the table, without its hosts.
func usageOfRoute(r *Route) Usage {
	var u Usage
	for i := range r.Matches {
		m := &r.Matches[i].RouteMatch
		data, err := json.Marshal(m)
		if err != nil {
			panic(fmt.Sprintf("compile: encode a match of %s: %v", r.key(), err)) // strings and integers
		}
		u.Bytes += int64(len(data))
		if m.Path.Type == rules.PathRegex {
			u.RegularExpressions++
		}
		for _, of := range [][]rules.HeaderMatch{m.Headers, m.Query} {
			for _, h := range of {
				if h.Type == rules.HeaderRegex {
					u.RegularExpressions++
				}
			}
		}
	}
	return u
}

func (b *tableBuilder) leftOut(over []Excess, charges []Charge, invalid []error) string {
	switch {
	case len(b.missing) > 0:
		return fmt.Sprintf("%s in spec.routeMatching does not exist: pods find no routes of it; create it, or correct its name and namespace", b.missing[0])
	case len(over) == 0 && len(invalid) == 0:
		return ""
	case len(over) == 0:
		return fmt.Sprintf("%d matches of routes are left out of the table of routes, because limiters cannot compare them; requests for them belong to "+
			"other routes or to no route: let the gateway name the routes, or change the match; the first one: %v", len(invalid), invalid[0])
	}
	e := over[0]
	of := tableBudget().Total
	if e.Part == "perNamespace" {
		of = tableBudget().PerNamespace
	}
	return fmt.Sprintf("%d routes of spec.routeMatching are left out of the table of routes, such as %s, because the older routes use its %d bytes, %d "+
		"matches or %d regular expressions (%s); requests for them belong to other routes or to no route: let the gateway name the routes, or delete "+
		"routes", len(over), charges[e.Index].Policy, of.Bytes, of.Rules, of.RegularExpressions, e.Part)
}

func (r *Route) key() objectKey { return objectKey{r.Kind, r.Namespace, r.Name} }

func compareAge(a, b *Route) int {
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
