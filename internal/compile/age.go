package compile

import (
	"cmp"
	"slices"
	"time"

	"github.com/weir-dev/weir/limiter/rules/matching"
	"github.com/weir-dev/weir/limiter/rules/policyname"
)

// ages has the order of the policies of each large scope.
type ages map[string]scopeAge

type scopeAge struct {
	policies []*compiled // in order of their names
	byAge    []string    // see rules.Set.ByAge; nil if it is the order by name
}

// update returns Set.ByAge: the names of the rules of each large scope, those of the oldest policy first. It omits scopes whose policies have this order
// by name, as they do in files. The policies are in order of their names, so that those of a scope are adjacent.
func (a *ages) update(policies []*compiled) (result map[string][]string) {
	updated := ages{}
	for rest := policies; len(rest) > 0; {
		scope, own, count := rest[0].scope, 0, 0
		for own < len(rest) && rest[own].scope == scope {
			count += len(rest[own].Rules)
			own++
		}
		if count > matching.MaxPoliciesPerRequest {
			age := (*a)[scope]
			if !slices.Equal(age.policies, rest[:own]) {
				age = scopeAge{slices.Clone(rest[:own]), byAge(rest[:own])}
			}
			updated[scope] = age
			if age.byAge != nil {
				if result == nil {
					result = map[string][]string{}
				}
				result[scope] = age.byAge
			}
		}
		rest = rest[own:]
	}
	*a = updated
	return result
}

// byAge returns the names of the rules of a scope, those of the oldest policy first; nil if that is the order of the rules.
func byAge(policies []*compiled) (names []string) {
	type rule struct {
		created time.Time
		name    string // without the scope
	}
	var list []rule
	for _, p := range policies {
		for i := range p.Rules {
			_, name := policyname.Split(p.Rules[i].Policy)
			list = append(list, rule{p.created, name})
		}
	}
	// The order without the list is that of the rules' names: "a-b" is before "a:1d", although policy a is before a-b.
	slices.SortFunc(list, func(a, b rule) int { return cmp.Compare(a.name, b.name) })
	oldest := func(a, b rule) int { return cmp.Or(a.created.Compare(b.created), cmp.Compare(a.name, b.name)) }
	if slices.IsSortedFunc(list, oldest) {
		return nil
	}
	slices.SortFunc(list, oldest)
	for _, r := range list {
		names = append(names, r.name)
	}
	return names
}
