package report

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/weir-dev/weir/controllers/ruleset/selection"
	"github.com/weir-dev/weir/internal/compile"
)

// outcome is the state of one policy at one Limiter that selects it.
type outcome struct {
	limiter      types.NamespacedName // empty for a policy that no Limiter selects
	rule         *selection.Rule      // nil if the policy does not compile or is not selected
	problems     []compile.Problem
	acknowledged int32
	replicas     int32
	unavailable  string // why Redis is unavailable; empty if it is available
	degradation  degradation
	overridden   selection.Overridden
}

// outcomeOf returns the state of a policy that the Limiter selects.
func outcomeOf(s *LimiterState, p selection.Policy) outcome {
	o := outcome{limiter: s.Limiter, problems: s.RuleSet.Problems[p.Key()]}
	if rule, ok := s.RuleSet.Rules[p.Name]; ok && len(o.problems) == 0 {
		o.rule = &rule
		o.replicas = s.Delivery.Serving()
		if s.RuleSet.Policies[p.GetUID()] == p.GetGeneration() { // a previous rule set can have the rule of an earlier generation
			o.acknowledged = s.Delivery.Acknowledged(p.Name, rule.Revision)
		}
		o.unavailable, o.degradation = s.Delivery.Outage.Message, policyDegradation(s.Delivery)
		o.overridden = s.RuleSet.Overridden[p.Name]
	}
	return o
}

// programmed reports whether every replica that serves, of at least one, enforces the policy.
func (o outcome) programmed() bool {
	return o.rule != nil && o.unavailable == "" && o.replicas > 0 && o.acknowledged == o.replicas
}

// summary is everything in an outcome that the status of one version of a policy depends on.
type summary struct {
	limiter                types.NamespacedName
	revision               string // of the rule; empty if the policy does not compile
	acknowledged, replicas int32
	unavailable            string
	degradation            degradation
	overridden             selection.Overridden
}

func (o outcome) summary() summary {
	if o.rule == nil {
		return summary{limiter: o.limiter}
	}
	return summary{
		limiter: o.limiter, revision: o.rule.Revision, acknowledged: o.acknowledged, replicas: o.replicas,
		unavailable: o.unavailable, degradation: o.degradation, overridden: o.overridden,
	}
}

func summaries(outcomes []outcome) []summary {
	all := make([]summary, len(outcomes))
	for i := range outcomes {
		all[i] = outcomes[i].summary()
	}
	return all
}

// unchanged reports whether the outcomes have these summaries.
func unchanged(before []summary, outcomes []outcome) bool {
	return slices.EqualFunc(before, outcomes, func(s summary, o outcome) bool { return s == o.summary() })
}
