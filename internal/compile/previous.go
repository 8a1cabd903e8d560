package compile

import (
	"github.com/weir-dev/weir/internal/compile/gateway"
	"github.com/weir-dev/weir/limiter/rules"
)

// previousRules finds the rules of [Gateways.Previous] by policy.
type previousRules map[previousKey]*rules.Rule

type previousKey struct {
	policy  string
	cluster bool
}

// previousRulesOf returns no rules while the objects can be read.
func previousRulesOf(g *gateway.Objects) previousRules {
	if g == nil || g.Unreadable == nil {
		return nil
	}
	all := previousRules{}
	for i := range g.Previous.Rules { // also rules without routes: their policy may have targets now
		rule := &g.Previous.Rules[i]
		all[previousKey{rule.Policy, rule.Domain == ""}] = rule
	}
	return all
}

// of returns the previous rule of the policy, nil if it has no such rule, and whether current, its rule without targets, differs in another way than
// by the routes, or had no routes.
func (all previousRules) of(policy validPolicy, current rules.Rule) (previous *rules.Rule, outdated bool) {
	previous = all[previousKey{policy.name, policy.cluster != nil}]
	switch {
	case previous == nil:
		return nil, false
	case previous.Match.Routes == nil: // the policy had no targets
		return previous, true
	}
	if current.Match.Routes = previous.Match.Routes; policy.cluster != nil { // its domains follow from the routes
		current.AllDomains, current.Domains = previous.AllDomains, previous.Domains
	}
	return previous, current.Revision() != previous.Revision()
}
