package routetable

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weir-dev/weir/go/internal/compile/gateway"
	"github.com/weir-dev/weir/go/internal/limiter/rules"
	"github.com/weir-dev/weir/go/internal/limiter/rules/route"
)

// tableRoute is a route in the table, with the indexes of its matches there.
type tableRoute struct {
	*gateway.Route

	matches []int
	// rest is the index of a match for all requests of the hosts that no match takes; -1 if no match is left out.
	rest int
}

// tableEntries are the entries of a table.
type tableEntries struct {
	*rules.RouteTable

	routes  []tableRoute // the oldest first
	invalid []error      // a match that limiters cannot compare
}

func (b *tableBuilder) build() (*rules.RouteTable, string) {
	fit := b.fit()
	table := &tableEntries{RouteTable: &rules.RouteTable{Routes: []rules.Route{}, Matches: []rules.RouteMatch{}, Listeners: []rules.RouteListener{}}}
	for i, r := range fit.routes {
		switch fit.place[i] {
		case placeMatches:
			table.addRoute(r)
		case placeRest:
			table.routes = append(table.routes, tableRoute{Route: r, rest: table.addRest(r)})
		}
	}
	table.Groups = b.ruleGroups()
	b.addListeners(table, &fit)
	return table.RouteTable, b.leftOut(fit, table.invalid)
}

// hosts returns the hosts of a listener with the matches of the routes, in order of precedence. The rest of a route comes last: it must not take the
// requests of a match of another route.
func (g *listenerGroup) hosts(table *tableEntries, routes map[*gateway.Route][]string) []rules.RouteHost {
	matches, rest := map[string][]int{}, map[string][]int{}
	likeEnvoyGateway := map[string]bool{}
	for _, r := range table.routes {
		for _, host := range routes[r.Route] {
			matches[host] = append(matches[host], r.matches...)
			if r.rest >= 0 {
				rest[host] = append(rest[host], r.rest)
			}
			likeEnvoyGateway[host] = likeEnvoyGateway[host] || g.controller[r.Route] == envoyGateway
		}
	}
	list := []rules.RouteHost{}
	for _, host := range sortedKeys(matches) {
		order := precedenceOf
		if likeEnvoyGateway[host] {
			order = precedenceInEnvoyGateway
		}
		slices.SortStableFunc(matches[host], func(i, j int) int { return order(&table.Matches[i], &table.Matches[j]) })
		if restOfHost := rest[host]; len(restOfHost) > 0 {
			matches[host] = append(matches[host], restOfHost[0]) // it takes all requests, so that no later one takes any
		}
		list = append(list, rules.RouteHost{Host: host, Matches: matches[host]})
	}
	return list
}

// addRest adds the match rest to the host of a listener, and to the wildcards: they take the requests for hosts that are not in the table.
func addRest(hosts []rules.RouteHost, host string, rest int) []rules.RouteHost {
	i, found := slices.BinarySearchFunc(hosts, host, func(h rules.RouteHost, host string) int { return strings.Compare(h.Host, host) })
	if !found {
		hosts = slices.Insert(hosts, i, rules.RouteHost{Host: host})
	}
	for i := range hosts {
		if h := &hosts[i]; h.Host == host || strings.HasPrefix(h.Host, "*") {
			h.Matches = append(h.Matches, rest)
		}
	}
	return hosts
}

// addRoute adds the matches of a route. Those that limiters cannot compare become a match for the rest: otherwise the requests would have no
// domain, and leave the limits of the Gateway.
func (t *tableEntries) addRoute(r *gateway.Route) {
	added := tableRoute{Route: r, rest: -1}
	routeOf := map[string]int{}
	for i := range r.Matches {
		match := r.Matches[i].RouteMatch
		if err := route.ValidateMatch(match); err != nil {
			t.invalid = append(t.invalid, fmt.Errorf("%s: %w", r.Key(), err))
			if added.rest < 0 {
				added.rest = t.addRest(r)
			}
			continue
		}
		rule := r.Matches[i].Rule
		route, isListed := routeOf[rule]
		if !isListed {
			route = len(t.Routes)
			routeOf[rule] = route
			t.Routes = append(t.Routes, routeOfRule(r, rule))
		}
		match.Route = route
		added.matches = append(added.matches, len(t.Matches))
		t.Matches = append(t.Matches, match)
	}
	t.routes = append(t.routes, added)
}

// addRest adds a match for all requests, which belong to the route and to none of its rules.
func (t *tableEntries) addRest(r *gateway.Route) int {
	match := restOf()
	match.Route = len(t.Routes)
	t.Routes, t.Matches = append(t.Routes, routeOfRule(r, "")), append(t.Matches, match)
	return len(t.Matches) - 1
}

func routeOfRule(r *gateway.Route, rule string) rules.Route {
	return rules.Route{Namespace: r.Namespace, Target: rules.RouteTarget(string(r.Kind), r.Name, rule)}
}

func restOf() rules.RouteMatch {
	return rules.RouteMatch{Path: rules.PathMatch{Type: rules.PathPrefix, Value: "/"}}
}
