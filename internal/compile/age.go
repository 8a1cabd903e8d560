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

// update replaces the policies, which are in order of their names, so that those of a scope are adjacent.
func (a *ages) update(policies []*compiled) {
	updated := ages{}
	for rest := policies; len(rest) > 0; {
		own := scopeOf(rest, rest[0].scope)
		if age, isLarge := (*a)[rest[0].scope].after(own); isLarge {
			updated[rest[0].scope] = age
		}
		rest = rest[len(own):]
	}
	*a = updated
}

// replace is update for policies of which some are gone or new.
func (a *ages) replace(policies, gone, added []*compiled) {
	for _, changed := range [][]*compiled{gone, added} {
		for _, c := range changed {
			first, _ := slices.BinarySearchFunc(policies, policyname.Join(c.scope, ""), func(p *compiled, name string) int { return cmp.Compare(p.Policy, name) })
			if age, isLarge := (*a)[c.scope].after(scopeOf(policies[first:], c.scope)); isLarge {
				(*a)[c.scope] = age
			} else {
				delete(*a, c.scope)
			}
		}
	}
}

// scopeOf returns the first policies, which are those of a scope.
func scopeOf(policies []*compiled, scope string) []*compiled {
	own := 0
	for own < len(policies) && policies[own].scope == scope {
		own++
	}
	return policies[:own]
}

// after returns the order of the policies of a scope, and whether they are so many that it matters.
func (age scopeAge) after(own []*compiled) (scopeAge, bool) {
	count := 0
	for _, c := range own {
		count += len(c.Rules)
	}
	if count <= matching.MaxPoliciesPerRequest {
		return scopeAge{}, false
	}
	if slices.Equal(age.policies, own) {
		return age, true
	}
	return scopeAge{slices.Clone(own), byAge(own)}, true
}

// byScope returns Set.ByAge: the names of the rules of each large scope, those of the oldest policy first. It omits scopes whose policies have this
// order by name, as they do in files.
func (a *ages) byScope() (result map[string][]string) {
	for scope, age := range *a {
		if age.byAge == nil {
			continue
		}
		if result == nil {
			result = map[string][]string{}
		}
		result[scope] = age.byAge
	}
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
