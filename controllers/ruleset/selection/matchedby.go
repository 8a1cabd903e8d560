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

// setMatchedBy sets how requests are assigned to the routes of each rule. Rules can share their memory with an earlier set, and the table is not a
// part of a rule.
func (s *RuleSet) setMatchedBy(set *rules.Set) {
	inTable := map[rules.Route]bool{}
	if set.RouteTable != nil {
		for _, r := range set.RouteTable.Routes {
			inTable[r] = true
			kind, name, _ := strings.Cut(r.Target, "/") // a rule of a route names the route too
			name, _, _ = strings.Cut(name, "/")
			inTable[rules.Route{Namespace: r.Namespace, Target: rules.RouteTarget(kind, name, "")}] = true
		}
	}
	for policy, own := range set.Policies() {
		rule, known := s.Rules[policy]
		if routes := own[0].Match.Routes; known && routes != nil {
			rule.Effective.MatchedBy = v1alpha1.MatchedByRouteName
			if len(routes) > 0 && !slices.ContainsFunc(routes, func(r rules.Route) bool { return !inTable[r] }) {
				rule.Effective.MatchedBy = v1alpha1.MatchedByRequest
			}
			s.Rules[rule.Policy] = rule
		}
	}
}
