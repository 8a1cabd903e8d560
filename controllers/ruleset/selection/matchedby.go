package selection

import (
	"slices"
	"strings"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/limiter/rules"
)

// HasRouteTable reports whether the pods of the Limiter find the route of a request whose gateway does not name it.
func HasRouteTable(limiter *v1alpha1.Limiter) bool {
	return len(limiter.Spec.RouteMatching.Gateways) > 0
}

// routesInTable returns the routes that the table has; nil without a table.
func routesInTable(table *rules.RouteTable) map[rules.Route]bool {
	if table == nil {
		return nil
	}
	inTable := map[rules.Route]bool{}
	for _, r := range table.Routes {
		inTable[r] = true
		kind, name, _ := strings.Cut(r.Target, "/") // a rule of a route names the route too
		name, _, _ = strings.Cut(name, "/")
		inTable[rules.Route{Namespace: r.Namespace, Target: rules.RouteTarget(kind, name, "")}] = true
	}
	return inTable
}

// matchedBy returns how requests are assigned to the routes of a rule; empty for a rule without routes. The table is not a part of a rule.
func matchedBy(routes []rules.Route, inTable map[rules.Route]bool) v1alpha1.MatchedBy {
	switch {
	case routes == nil:
		return ""
	case len(routes) > 0 && !slices.ContainsFunc(routes, func(r rules.Route) bool { return !inTable[r] }):
		return v1alpha1.MatchedByRequest
	default:
		return v1alpha1.MatchedByRouteName
	}
}
