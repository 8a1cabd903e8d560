package ruleset

import (
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics of the controller.
type metrics struct {
	problems    *prometheus.GaugeVec
	policies    prometheus.Gauge
	propagation prometheus.Histogram
	edits       map[string]edit // by policy: not enforced by all replicas yet
}

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
		}, []string{"reason"}),
		policies: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "weir_rules_policies",
			Help: "Policies in the rule set.",
		}),
		propagation: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "weir_propagation_seconds",
			Help: "From the operator's sight of an edited policy to its sight of the last live replica's heartbeat with it. " +
				"Edits that are superseded, deleted or invalid do not count, nor does what an operator finds when it starts.",
			Buckets: []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
		}),
		edits: map[string]edit{},
	}
	err := errors.Join(registry.Register(m.problems), registry.Register(m.policies), registry.Register(m.propagation))
	if err != nil {
		return nil, fmt.Errorf("register metrics of rule sets: %w", err)
	}
	return m, nil
}

// compiled notes a compilation, and the edits that it shows.
func (m *metrics) compiled(before, after compiled, now time.Time) {
	m.policies.Set(float64(len(after.rules)))
	m.problems.Reset()
	for _, problems := range after.problems {
		for _, p := range problems {
			m.problems.WithLabelValues(p.Reason).Inc()
		}
	}
	if before.revision == "" {
		return
	}
	for policy, rule := range after.rules {
		if before.rules[policy].revision != rule.revision {
			m.edits[policy] = edit{rule.revision, now}
		}
	}
	for policy, e := range m.edits {
		if after.rules[policy].revision != e.revision {
			delete(m.edits, policy)
		}
	}
}

// reached notes how far the policy is.
func (m *metrics) reached(policy string, o outcome, now time.Time) {
	e, ok := m.edits[policy]
	if !ok || !o.programmed() {
		return
	}
	m.propagation.Observe(now.Sub(e.seen).Seconds())
	delete(m.edits, policy)
}
