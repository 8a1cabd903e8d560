package engine

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-dev/weir/go/internal/limiter/rules"
	"github.com/weir-dev/weir/go/internal/limiter/rules/matching"
)

// Metrics of the engine. Identifiers are never labels.
type Metrics struct {
	decisions     *prometheus.CounterVec
	nearLimit     *prometheus.CounterVec
	shadowDenials *prometheus.CounterVec
	missingIDs    *prometheus.CounterVec
	overflow      *prometheus.CounterVec
	leftOut       *prometheus.CounterVec
	bypassed      *prometheus.CounterVec
	uncertain     *prometheus.CounterVec
	noRule        prometheus.Counter
	revision      *prometheus.GaugeVec
	policies      prometheus.Gauge
}

// NewMetrics registers the engine's metrics, unless registry is nil.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	if registry == nil {
		registry = prometheus.NewRegistry()
	}
	m := &Metrics{
		decisions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "weir_decisions_total",
			Help: "Decisions by policy, without peeks. The result is allowed, denied, uncharged (another policy denied the request) " +
				"or unlimited (an unlimited tier applies). The tier is empty if the limit of the policy applies, and _other for the tiers " +
				"of policies beyond the first 512 tiers of a namespace, by age.",
		}, []string{"policy", "axis", "tier", "result", "source"}),
		nearLimit: newNearLimit(),
		shadowDenials: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "weir_shadow_denials_total",
			Help: "Requests that a shadow policy would have denied.",
		}, []string{"policy"}),
		missingIDs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "weir_missing_identifier_total",
			Help: "Requests that matched a policy without an identifier. The reason is missing (counted under the identifier \"-\") or " +
				"unreadable (counted under \"?\"), for example a text that is no address.",
		}, []string{"policy", "axis", "reason"}),
		overflow: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "weir_identifier_overflow_total",
			Help: "Requests of new identifiers that got no counter of their own, because the policy has reached --max-identifiers or Redis is nearly " +
				"full. They share one counter, or are denied.",
		}, []string{"policy"}),
		leftOut: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "weir_policies_left_out_total",
			Help: "Requests that a policy matched and did not count, because more than 32 policies of its namespace matched the request. " +
				"Enforced policies count it before Shadow policies, and older ones before younger ones.",
		}, []string{"policy"}),
		bypassed: newBypassedTotal(),
		uncertain: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "weir_uncertain_matches_total",
			Help: "Requests that matched a policy because a condition of it could not be evaluated: an expression failed or reached its bound of cost, " +
				"or a path, a method or a header can be read in several ways or is too long to compare.",
		}, []string{"policy"}),
		noRule: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "weir_unmatched_total",
			Help: "Requests that no policy matched.",
		}),
		revision: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "weir_rules_revision_info",
			Help: "1 for the revision of the active rule set.",
		}, []string{"revision"}),
		policies: newPolicies(),
	}
	registry.MustRegister(m.overflow, m.leftOut, m.bypassed, m.uncertain, m.nearLimit)
	registry.MustRegister(m.decisions, m.shadowDenials, m.missingIDs, m.noRule, m.revision, m.policies)
	return m
}

func newPolicies() prometheus.Gauge {
	return prometheus.NewGauge(prometheus.GaugeOpts{Name: "weir_rules_policies", Help: "Policies in the active rule set."})
}

func newNearLimit() *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "weir_near_limit_total",
		Help: "Requests that a policy allowed and that left less than 20 % of the limit. Compare it with weir_decisions_total, which " +
			"has the same tiers.",
	}, []string{"policy", "tier"})
}

// swapped records the active rule set and drops the series of policies, tiers and axes that only the previous one has. Otherwise everything
// that was ever active would keep its series.
func (m *Metrics) swapped(previous, now *matching.Index) {
	m.revision.Reset()
	m.revision.WithLabelValues(now.Revision()).Set(1)
	m.policies.Set(float64(now.Len()))
	if previous == nil {
		return
	}
	for rule := range previous.Rules() {
		m.dropUnless(now, rule)
	}
}

// dropRemoved drops the series of those policies, tiers and axes of an answer that the rule set now does not have.
func (m *Metrics) dropRemoved(a *Answer, now *matching.Index) {
	for i := range a.Results {
		m.dropUnless(now, a.Results[i].Rule)
	}
}

func (m *Metrics) dropUnless(now *matching.Index, rule *matching.Compiled) {
	if next, found := now.RuleOf(rule.Policy); found {
		m.dropReplaced(rule, next)
		return
	}
	removed := prometheus.Labels{"policy": rule.Policy}
	m.decisions.DeletePartialMatch(removed)
	m.nearLimit.DeletePartialMatch(removed)
	m.missingIDs.DeletePartialMatch(removed)
	m.shadowDenials.DeletePartialMatch(removed)
	m.overflow.DeletePartialMatch(removed)
	m.leftOut.DeletePartialMatch(removed)
	m.bypassed.DeletePartialMatch(removed)
	m.uncertain.DeletePartialMatch(removed)
}

// dropReplaced drops the series of the tiers and the axis of a rule that the next rule of its policy does not have.
func (m *Metrics) dropReplaced(rule, next *matching.Compiled) {
	switch {
	case !rule.SharesTierSeries:
		for i := range rule.Tiers {
			name := rule.Tiers[i].Name
			if next.SharesTierSeries || !slices.ContainsFunc(next.Tiers, func(t rules.Tier) bool { return t.Name == name }) {
				m.dropTier(rule, name)
			}
		}
	case !next.SharesTierSeries:
		m.dropTier(rule, otherTiers)
	}
	if rule.Axis != next.Axis {
		removed := prometheus.Labels{"policy": rule.Policy, "axis": rule.Axis}
		m.decisions.DeletePartialMatch(removed)
		m.missingIDs.DeletePartialMatch(removed)
	}
}

// dropTier drops the series with this label of a tier. It deletes each by all its labels, because to search the series of all policies takes
// long, and an edit of an old policy can replace the labels of all younger ones.
func (m *Metrics) dropTier(rule *matching.Compiled, label string) {
	m.nearLimit.DeleteLabelValues(rule.Policy, label)
	for _, source := range []Source{SourceRedis, SourceMemory, SourceCache, SourceLease, SourceLocal} {
		for result := range outcomes {
			m.decisions.DeleteLabelValues(rule.Policy, rule.Axis, label, result.String(), string(source))
		}
	}
	for _, result := range []string{unlimitedResult, denied.String()} {
		m.decisions.DeleteLabelValues(rule.Policy, rule.Axis, label, result, string(SourceNone))
	}
}

// otherTiers is the label of tiers without series of their own. No tier has this name.
const otherTiers = "_other"

// tierLabel returns the label of a tier of a rule, or of its own limit if the name is empty.
func tierLabel(rule *matching.Compiled, name string) string {
	if name != "" && rule.SharesTierSeries {
		return otherTiers
	}
	return name
}

// unlimitedResult is the result of a request to which an unlimited tier applies.
const unlimitedResult = "unlimited"

// decision returns the counter of the decisions of a rule with this result.
func (m *Metrics) decision(rule *matching.Compiled, tier, result string, source Source) prometheus.Counter {
	return m.decisions.WithLabelValues(rule.Policy, rule.Axis, tierLabel(rule, tier), result, string(source))
}

// near returns the counter of the requests that a tier of a rule, or its own limit, allowed near the limit.
func (m *Metrics) near(rule *matching.Compiled, tier string) prometheus.Counter {
	return m.nearLimit.WithLabelValues(rule.Policy, tierLabel(rule, tier))
}

func (m *Metrics) unmatched() { m.noRule.Inc() }
