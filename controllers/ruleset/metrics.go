package ruleset

import (
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weir-dev/weir/controllers/ruleset/publish"
	"github.com/weir-dev/weir/controllers/ruleset/selection"
)

// metrics of the controller.
type metrics struct {
	problems    *prometheus.GaugeVec
	policies    *prometheus.GaugeVec
	budget      *prometheus.GaugeVec
	propagation prometheus.Histogram
}

// edits are the changes, by policy, that some replica of a Limiter does not enforce yet.
type edits map[string]edit

// edit is one change of a policy.
type edit struct {
	revision string // of the rule
	seen     time.Time
}

func newMetrics(registry prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		problems: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "weir_policy_problems",
			Help: "Problems of invalid policies, which are not enforced, by reason.",
		}, []string{limiterLabel, "reason"}),
		policies: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "weir_rules_policies",
			Help: "Policies in the rule set of a Limiter.",
		}, []string{limiterLabel}),
		budget: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "weir_policy_budget_used_ratio",
			Help: "The part of spec.policyBudget.total that the policies of a Limiter use, 0 to 1, by resource: bytes, rules, " +
				"expressions or regularExpressions.",
		}, []string{limiterLabel, "resource"}),
		propagation: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "weir_propagation_seconds",
			Help: "Seconds from when the operator reads an edited policy until the heartbeats of all live replicas report it. " +
				"Edits that are superseded, deleted or invalid are not counted, nor are policies that exist when the operator starts.",
			Buckets: []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
		}),
	}
	err := errors.Join(registry.Register(m.problems), registry.Register(m.policies), registry.Register(m.budget), registry.Register(m.propagation))
	if err != nil {
		return nil, fmt.Errorf("register metrics of rule sets: %w", err)
	}
	return m, nil
}

// limiterLabel is "namespace/name".
const limiterLabel = "limiter"

// observeRuleSet records a new rule set of a Limiter, and adds the edits in it to those that are pending. It has no edits if
// before is nil.
func (m *metrics) observeRuleSet(limiter types.NamespacedName, pending edits, before, after *selection.RuleSet, now time.Time) edits {
	m.policies.WithLabelValues(limiter.String()).Set(float64(len(after.Rules)))
	for i, limit := range after.Budget.Total.Amounts() {
		if limit.Used > 0 {
			m.budget.WithLabelValues(limiter.String(), limit.Name).Set(float64(after.Used.Amounts()[i].Used) / float64(limit.Used))
		}
	}
	m.problems.DeletePartialMatch(prometheus.Labels{limiterLabel: limiter.String()})
	for _, problems := range after.Problems {
		for _, p := range problems {
			m.problems.WithLabelValues(limiter.String(), p.Reason).Inc()
		}
	}
	if before == nil {
		return edits{}
	}
	after.RuleDifferences(before, func(policy string) {
		if rule, exists := after.Rules[policy]; exists && before.Rules[policy].Revision != rule.Revision {
			pending[policy] = edit{rule.Revision, now}
		}
	})
	for policy, e := range pending {
		if after.Rules[policy].Revision != e.revision {
			delete(pending, policy)
		}
	}
	return pending
}

// observeDelivery records the edits that all replicas enforce, and removes them from those that are pending.
func (m *metrics) observeDelivery(pending edits, set *selection.RuleSet, d publish.Delivery, now time.Time) {
	for policy, e := range pending {
		if d.Enforced(policy, set.Rules[policy].Revision) {
			m.propagation.Observe(now.Sub(e.seen).Seconds())
			delete(pending, policy)
		}
	}
}

// remove removes the metrics of a Limiter that does not exist any more.
func (m *metrics) remove(limiter types.NamespacedName) {
	m.policies.DeletePartialMatch(prometheus.Labels{limiterLabel: limiter.String()})
	m.problems.DeletePartialMatch(prometheus.Labels{limiterLabel: limiter.String()})
	m.budget.DeletePartialMatch(prometheus.Labels{limiterLabel: limiter.String()})
}
