package routetable

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/weir-dev/weir/go/internal/compile/budget"
	"github.com/weir-dev/weir/go/internal/compile/gateway"
	"github.com/weir-dev/weir/go/internal/limiter/rules"
)

// tableBudget bounds the matches in the table of routes. A match counts once for each host. As with policies, the oldest routes come first: a new
// route never displaces another one, and one namespace cannot fill the table.
func tableBudget() budget.Budget {
	return budget.Budget{
		PerNamespace: budget.Usage{Bytes: 256 << 10, Rules: 2000, RegularExpressions: 100},
		Total:        budget.Usage{Bytes: 2 << 20, Rules: 20_000, RegularExpressions: 2000},
	}
}

// restBudget bounds the routes of which the table has only the hosts, because their matches do not fit. It is a budget of its own: otherwise old routes
// that get more matches would displace newer routes entirely.
func restBudget() budget.Budget {
	return budget.Budget{PerNamespace: budget.Usage{Bytes: 64 << 10, Rules: 1000}, Total: budget.Usage{Bytes: 512 << 10, Rules: 10_000}}
}

// tablePlace is what the table has of a route.
type tablePlace int

const (
	placeMatches tablePlace = iota // its hosts and matches
	placeRest                      // its hosts
	placeNone
)

// tableFit has what fits into the table.
type tableFit struct {
	routes   []*gateway.Route // the oldest first
	place    []tablePlace
	excesses []budget.Excess // of the routes without their matches
}

func (b *tableBuilder) fit() tableFit {
	hosts := b.routeHosts()
	f := tableFit{}
	for route := range hosts {
		f.routes = append(f.routes, route)
	}
	slices.SortFunc(f.routes, compareAge)
	f.place = make([]tablePlace, len(f.routes))
	charges := make([]budget.Charge, len(f.routes))
	for i, r := range f.routes {
		charges[i] = budget.Charge{Policy: r.Key().String(), Namespace: r.Namespace, Created: r.Created, Usage: usageOfRoute(r, r.Matches, hosts[r])}
	}
	_, f.excesses = tableBudget().Fit(charges)
	left := make([]budget.Charge, len(f.excesses))
	for i, e := range f.excesses {
		r := f.routes[e.Index]
		f.place[e.Index], left[i] = placeRest, charges[e.Index]
		left[i].Usage = usageOfRoute(r, nil, hosts[r])
	}
	_, withoutPlace := restBudget().Fit(left)
	for _, e := range withoutPlace {
		f.place[f.excesses[e.Index].Index] = placeNone
	}
	return f
}

// routeHosts returns the hosts of each route. One on several ports of a Gateway counts once, as groups share most of them, but once more for each
// port that tenants have added.
func (b *tableBuilder) routeHosts() map[*gateway.Route][]string {
	type place struct {
		route          *gateway.Route
		listener, host string
	}
	hosts, counted := map[*gateway.Route][]string{}, map[place]bool{}
	for i := range b.groups {
		g := &b.groups[i]
		for listener, routes := range g.byHost {
			for route, names := range routes {
				for _, name := range names {
					key := place{route, listener, name}
					if counted[key] && !g.shared {
						continue
					}
					counted[key] = true
					hosts[route] = append(hosts[route], name)
				}
			}
		}
	}
	return hosts
}

// firstWithoutPlace returns the oldest route of a listener without a place in the table, or nil. Its name stands for the others too:
// requests for their hosts would otherwise leave the limits of the Gateway.
func (f *tableFit) firstWithoutPlace(routes map[*gateway.Route][]string) *gateway.Route {
	for i, r := range f.routes {
		if f.place[i] == placeNone && len(routes[r]) > 0 {
			return r
		}
	}
	return nil
}

// maxIndex is the size of an index in the encoded table, with a comma.
const maxIndex = len("20000,")

// usageOfRoute returns what a route with these matches and hosts uses of the table, as it is encoded, with a match for the rest.
func usageOfRoute(r *gateway.Route, matches []gateway.RouteMatch, hosts []string) budget.Usage {
	u := budget.Usage{Rules: int64(max(1, len(matches)) * len(hosts)), Bytes: sizeOf(restOf()) + sizeOf(routeOfRule(r, ""))}
	named := map[string]bool{}
	for i := range matches {
		m := &matches[i]
		u.Bytes += sizeOf(&m.RouteMatch)
		if !named[m.Rule] {
			named[m.Rule] = true
			u.Bytes += sizeOf(routeOfRule(r, m.Rule))
		}
		if m.Path.Type == rules.PathRegex {
			u.RegularExpressions++
		}
		for _, conditions := range [][]rules.HeaderMatch{m.Headers, m.Query} {
			for _, h := range conditions {
				if h.Type == rules.HeaderRegex {
					u.RegularExpressions++
				}
			}
		}
	}
	for _, host := range hosts {
		u.Bytes += sizeOf(rules.RouteHost{Host: host, Matches: []int{}}) + int64((len(matches)+1)*maxIndex)
	}
	return u
}

// sizeOf returns the size of an encoded entry in a list, where its index can be larger than 0.
func sizeOf(entry any) int64 {
	data, err := json.Marshal(entry)
	if err != nil {
		panic(fmt.Sprintf("compile: encode an entry of the table of routes: %v", err)) // strings and integers
	}
	return int64(len(data) + maxIndex)
}

func (b *tableBuilder) leftOut(fit tableFit, invalid []error) string {
	switch {
	case len(b.missing) > 0:
		return fmt.Sprintf("%s in spec.routeMatching does not exist: pods find no routes of it; create it, or correct its name and namespace", b.missing[0])
	case b.left.count > 0:
		limits := listenerBudget().PerNamespace
		return fmt.Sprintf("%d listeners of ListenerSets are left out of the table of routes, such as one of %s, because a namespace can have %d, and all "+
			"of them %d bytes; requests for their hosts belong to other routes: delete listeners", b.left.count, b.left.first, limits.Rules, limits.Bytes)
	case b.shifted.count > 0:
		return fmt.Sprintf("%d listeners of ListenerSets are left out of the table of routes, such as one of %s, because requests for a listener of the "+
			"Gateway, or for an older one of another namespace with the same host, can arrive at its port %d, or the reverse: gateways can add "+
			"10000 to ports below 1024; requests for their hosts belong to other routes: choose another port", b.shifted.count, b.shifted.first, b.shifted.port)
	case len(fit.excesses) == 0 && len(invalid) == 0:
		return ""
	case len(fit.excesses) == 0:
		return fmt.Sprintf("%d matches of routes are left out of the table of routes, because limiters cannot compare them; requests for them belong to "+
			"other routes of the host, or to the route without its rules: let the gateway name the routes, or change the match; the first one: %v",
			len(invalid), invalid[0])
	}
	e := fit.excesses[0]
	limits := tableBudget().Total
	if e.Part == "perNamespace" {
		limits = tableBudget().PerNamespace
	}
	return fmt.Sprintf("%d routes of spec.routeMatching are left out of the table of routes, such as %s, because the older routes use its %d bytes, %d "+
		"matches or %d regular expressions (%s); requests for their hosts belong to other routes of the host, or to the route without its rules: let the "+
		"gateway name the routes, or delete routes", len(fit.excesses), fit.routes[e.Index].Key(), limits.Bytes, limits.Rules, limits.RegularExpressions, e.Part)
}
