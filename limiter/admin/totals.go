package admin

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"

	dto "github.com/prometheus/client_model/go"

	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/rules/matching"
)

// totals are sums of decisions.
type totals struct {
	policies  map[string]PolicyDecisions
	sources   map[engine.Source]int64
	endpoints map[string]durations
}

// durations are the decisions of an endpoint: all, and those up to each bound in seconds.
type durations struct {
	count int64
	upTo  map[float64]int64
}

func newTotals() totals {
	return totals{policies: map[string]PolicyDecisions{}, sources: map[engine.Source]int64{}, endpoints: map[string]durations{}}
}

// The metrics that totals are read from, see docs/reference/metrics.md.
const (
	decisionsMetric = "weir_decisions_total"
	durationsMetric = "weir_decision_duration_seconds"
)

// addMetrics adds the metrics of a limiter.
func (t totals) addMetrics(families []*dto.MetricFamily) {
	for _, family := range families {
		for _, m := range family.GetMetric() {
			switch family.GetName() {
			case decisionsMetric:
				t.addDecisions(labels(m), int64(m.GetCounter().GetValue()))
			case durationsMetric:
				h := m.GetHistogram()
				latencies := durations{count: int64(h.GetSampleCount()), upTo: map[float64]int64{}}
				for _, b := range h.GetBucket() {
					if math.IsInf(b.GetUpperBound(), 1) { // all, which JSON cannot express
						continue
					}
					latencies.upTo[b.GetUpperBound()] = int64(b.GetCumulativeCount())
				}
				t.addDurations(labels(m)["endpoint"], latencies, 1)
			}
		}
	}
}

func labels(m *dto.Metric) map[string]string {
	values := map[string]string{}
	for _, label := range m.GetLabel() {
		values[label.GetName()] = label.GetValue()
	}
	return values
}

func (t totals) addDecisions(labels map[string]string, n int64) {
	p := PolicyDecisions{Policy: labels["policy"]}
	switch labels["result"] {
	case "allowed":
		p.Allowed = n
	case "denied":
		p.Denied = n
	case "uncharged":
		p.Uncharged = n
	case "unlimited":
		p.Unlimited = n
	}
	t.addPolicy(p, 1)
	t.sources[engine.Source(labels["source"])] += n
}

// addPolicy adds p, or subtracts it if sign is -1.
func (t totals) addPolicy(p PolicyDecisions, sign int64) {
	sum := t.policies[p.Policy]
	sum.Policy, sum.Shadow = p.Policy, sum.Shadow || p.Shadow
	sum.Allowed += sign * p.Allowed
	sum.Denied += sign * p.Denied
	sum.Uncharged += sign * p.Uncharged
	sum.Unlimited += sign * p.Unlimited
	t.policies[p.Policy] = sum
}

func (t totals) addDurations(endpoint string, latencies durations, sign int64) {
	sum := t.endpoints[endpoint]
	if sum.upTo == nil {
		sum.upTo = map[float64]int64{}
	}
	sum.count += sign * latencies.count
	for bound, n := range latencies.upTo {
		sum.upTo[bound] += sign * n
	}
	t.endpoints[endpoint] = sum
}

// addTop adds the sums of a Top.
func (t totals) addTop(top *Top) {
	for _, p := range top.Policies {
		t.addPolicy(p, 1)
	}
	for _, s := range top.Sources {
		t.sources[s.Source] += s.Decisions
	}
	for _, e := range top.Endpoints {
		latencies := durations{count: e.Decisions, upTo: map[float64]int64{}}
		for _, b := range e.Buckets {
			latencies.upTo[b.Seconds] = b.Decisions
		}
		t.addDurations(e.Endpoint, latencies, 1)
	}
}

// addShadow marks the Shadow policies of an index, which can be nil.
func (t totals) addShadow(x *matching.Index) {
	if x == nil {
		return
	}
	for rule := range x.Rules() {
		if p, found := t.policies[rule.Policy]; found && rule.Shadow {
			p.Shadow = true
			t.policies[rule.Policy] = p
		}
	}
}

// subtract subtracts earlier totals of the same process.
func (t totals) subtract(earlier totals) {
	for _, p := range earlier.policies {
		t.addPolicy(p, -1)
	}
	for source, n := range earlier.sources {
		t.sources[source] -= n
	}
	for endpoint, latencies := range earlier.endpoints {
		t.addDurations(endpoint, latencies, -1)
	}
}

// fill sets the sums of top. It leaves out what has decided nothing: the series of a removed policy end, which makes differences negative.
func (t totals) fill(top *Top) {
	top.Policies, top.Sources, top.Endpoints = []PolicyDecisions{}, []SourceDecisions{}, []EndpointDecisions{}
	for _, p := range t.policies {
		p.Allowed, p.Denied, p.Uncharged, p.Unlimited = max(0, p.Allowed), max(0, p.Denied), max(0, p.Uncharged), max(0, p.Unlimited)
		if p.Allowed+p.Denied+p.Uncharged+p.Unlimited > 0 {
			top.Policies = append(top.Policies, p)
		}
	}
	slices.SortFunc(top.Policies, func(a, b PolicyDecisions) int {
		return cmp.Or(cmp.Compare(b.Denied, a.Denied), cmp.Compare(b.Allowed, a.Allowed), strings.Compare(a.Policy, b.Policy))
	})
	for _, source := range slices.Sorted(maps.Keys(t.sources)) {
		if n := t.sources[source]; n > 0 {
			top.Sources = append(top.Sources, SourceDecisions{source, n})
		}
	}
	for _, endpoint := range slices.Sorted(maps.Keys(t.endpoints)) {
		if latencies := t.endpoints[endpoint]; latencies.count > 0 {
			top.Endpoints = append(top.Endpoints, latencies.decisions(endpoint))
		}
	}
}

func (d durations) decisions(endpoint string) EndpointDecisions {
	e := EndpointDecisions{Endpoint: endpoint, Decisions: d.count}
	for _, bound := range slices.Sorted(maps.Keys(d.upTo)) {
		e.Buckets = append(e.Buckets, DurationBucket{bound, d.upTo[bound]})
	}
	e.P50Ms, e.P90Ms, e.P99Ms = e.quantile(0.5), e.quantile(0.9), e.quantile(0.99)
	return e
}

// quantile estimates a quantile in milliseconds, as histogram_quantile of Prometheus: the durations in a bucket are spread evenly, and those
// above the last bound are the last bound.
func (e *EndpointDecisions) quantile(q float64) float64 {
	rank := q * float64(e.Decisions)
	var lower, lowerCount float64
	for _, b := range e.Buckets {
		if n := float64(b.Decisions); n >= rank && n > lowerCount {
			return 1000 * (lower + (b.Seconds-lower)*(rank-lowerCount)/(n-lowerCount))
		}
		lower, lowerCount = b.Seconds, float64(b.Decisions)
	}
	return 1000 * lower
}
