package admin

import (
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/matching"
)

// RuleSet is the rule set that a limiter enforces.
type RuleSet struct {
	Revision string `json:"revision"`
	// Rules sorted by policy.
	Rules []Rule `json:"rules"`
}

// Rule is a compiled policy.
type Rule struct {
	rules.Rule

	// Revision is the hash of the rule. Limiters with the same revision of a rule enforce the policy in the same way.
	Revision string `json:"revision"`
	// Keys matches the keys of the counters in Redis, for example "weir:throttle:tenant:{*}:shop/daily:*". It is empty for a rule set that is
	// not enforced.
	Keys string `json:"keys,omitempty"`
}

// NewRuleSet returns the rule set of an index.
func NewRuleSet(x *matching.Index) RuleSet {
	set := RuleSet{Revision: x.Revision(), Rules: []Rule{}}
	for rule := range x.Rules() {
		set.Rules = append(set.Rules, Rule{Rule: rule.Rule, Revision: rule.Revision(), Keys: rule.Keys.Pattern()})
	}
	return set
}
