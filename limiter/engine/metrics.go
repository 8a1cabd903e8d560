package engine

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-dev/weir/limiter/rules/matching"
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
func (m *Metrics) swapped(changes []matching.Change, previous, now *matching.Index) {
	m.revision.Reset()
	m.revision.WithLabelValues(now.Revision()).Set(1)
	m.policies.Set(float64(now.Len()))
	for _, change := range changes {
		if change.Old != nil {
			m.drop(labelsIn(previous, change.Old), labelsIn(now, change.New))
		}
	}
}

// labels are those of the series of a rule.
type labels struct {
	policy, axis string   // empty: there is no such rule
	tiers        []string // with "", which is the limit of the policy
}

// otherTiers is the label of tiers without series of their own. No tier has this name.
const otherTiers = "_other"

// labelsIn returns the labels of a rule of an index, no labels for nil.
func labelsIn(index *matching.Index, rule *matching.Compiled) labels {
	if rule == nil {
		return labels{}
	}
	l := labels{rule.Policy, rule.Axis, []string{""}}
	if index.SharesTierSeries(rule) {
		l.tiers = append(l.tiers, otherTiers)
		return l
	}
	for i := range rule.Tiers {
		l.tiers = append(l.tiers, rule.Tiers[i].Name)
	}
	return l
}

// drop drops the series of a rule that have labels which the next rule of its policy does not have. It deletes each by all its labels: to search the
// series of all policies takes long, and an edit of an old policy can replace the labels of all younger ones.
func (m *Metrics) drop(old, next labels) {
	isRemoved, isOtherAxis := old.policy != next.policy, old.axis != next.axis
	for _, tier := range old.tiers {
		isOtherTier := isRemoved || !slices.Contains(next.tiers, tier)
		if isOtherTier {
			m.nearLimit.DeleteLabelValues(old.policy, tier)
		}
		if !isOtherTier && !isOtherAxis {
			continue
		}
		for _, source := range []Source{SourceRedis, SourceMemory, SourceCache, SourceLease, SourceLocal, SourceNone} {
			for _, result := range []string{allowed.String(), denied.String(), uncharged.String(), unlimitedResult} {
				m.decisions.DeleteLabelValues(old.policy, old.axis, tier, result, string(source))
			}
		}
	}
	for why := range reasons {
		if isRemoved || isOtherAxis {
			m.missingIDs.DeleteLabelValues(old.policy, old.axis, why.String())
		}
	}
	for _, byPolicy := range []*prometheus.CounterVec{m.shadowDenials, m.overflow, m.leftOut, m.bypassed, m.uncertain} {
		if isRemoved {
			byPolicy.DeleteLabelValues(old.policy)
		}
	}
}

// unlimitedResult is the result of a request to which an unlimited tier applies.
const unlimitedResult = "unlimited"

// decision returns the counter of the decisions of a rule with this label of its tier, and this result.
func (m *Metrics) decision(rule *matching.Compiled, tier, result string, source Source) prometheus.Counter {
	return m.decisions.WithLabelValues(rule.Policy, rule.Axis, tier, result, string(source))
}

func (m *Metrics) unmatched() { m.noRule.Inc() }
