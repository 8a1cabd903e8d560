package ruleset

import (
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
)

// metrics of the controller.
type metrics struct {
	problems    *prometheus.GaugeVec
	policies    *prometheus.GaugeVec
	propagation prometheus.Histogram
}

// edits are the changes, by policy, that some replica of a Limiter does not enforce yet.
type edits map[string]edit

// edit is a change of a policy on its way.
type edit struct {
	revision string // of the rule
	seen     time.Time
}

func newMetrics(registry prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		problems: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "weir_policy_problems",
			Help: "Problems of policies that are not enforced because of them, by reason.",
		}, []string{limiterLabel, "reason"}),
		policies: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "weir_rules_policies",
			Help: "Policies in the rule set of a Limiter.",
		}, []string{limiterLabel}),
		propagation: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "weir_propagation_seconds",
			Help: "From the operator's sight of an edited policy to its sight of the last live replica's heartbeat with it. " +
				"Edits that are superseded, deleted or invalid do not count, nor does what an operator finds when it starts.",
			Buckets: []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
		}),
	}
	err := errors.Join(registry.Register(m.problems), registry.Register(m.policies), registry.Register(m.propagation))
	if err != nil {
		return nil, fmt.Errorf("register metrics of rule sets: %w", err)
	}
	return m, nil
}

// limiterLabel is "namespace/name".
const limiterLabel = "limiter"

// compiled notes a compilation, and adds the edits that it shows to those on their way.
func (m *metrics) compiled(limiter types.NamespacedName, underway edits, before, after *compiled, now time.Time) edits {
	m.policies.WithLabelValues(limiter.String()).Set(float64(len(after.rules)))
	m.problems.DeletePartialMatch(prometheus.Labels{limiterLabel: limiter.String()})
	for _, problems := range after.problems {
		for _, p := range problems {
			m.problems.WithLabelValues(limiter.String(), p.Reason).Inc()
		}
	}
	if before == nil {
		return edits{}
	}
	for policy, rule := range after.rules {
		if before.rules[policy].revision != rule.revision {
			underway[policy] = edit{rule.revision, now}
		}
	}
	for policy, e := range underway {
		if after.rules[policy].revision != e.revision {
			delete(underway, policy)
		}
	}
	return underway
}

// reached notes which edits have come to every replica, and takes them out of those on their way.
func (m *metrics) reached(underway edits, of *compiled, d delivery, now time.Time) {
	for policy, e := range underway {
		rule := of.rules[policy]
		if (outcome{rule: &rule, acknowledged: d.acknowledged(policy, rule.revision), replicas: d.alive(), unreachable: d.unreachable}).programmed() {
			m.propagation.Observe(now.Sub(e.seen).Seconds())
			delete(underway, policy)
		}
	}
}

// forget drops what is told of a Limiter that is gone.
func (m *metrics) forget(limiter types.NamespacedName) {
	m.policies.DeletePartialMatch(prometheus.Labels{limiterLabel: limiter.String()})
	m.problems.DeletePartialMatch(prometheus.Labels{limiterLabel: limiter.String()})
}
