package engine

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-dev/weir/limiter/rules"
)

// Metrics of the engine. Identifiers are never labels.
type Metrics struct {
	decisions     *prometheus.CounterVec
	shadowDenials *prometheus.CounterVec
	missingIDs    *prometheus.CounterVec
	noRule        prometheus.Counter
	repaidUnits   *prometheus.CounterVec
	storeSeconds  *prometheus.HistogramVec
	storeErrors   *prometheus.CounterVec
	revision      *prometheus.GaugeVec
	policies      prometheus.Gauge
	registry      prometheus.Registerer
	engine        atomic.Pointer[Engine] // nil until it is there
}

// NewMetrics registers the engine's metrics.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	m := &Metrics{
		registry: registry,
		decisions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "weir_decisions_total",
			Help: "Decisions by policy, peeks left out: result is allowed, denied, unlimited for a tier without limit, " +
				"or for a request that another policy denied, uncharged.",
		}, []string{"policy", "axis", "result", "source"}),
		shadowDenials: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "weir_shadow_denials_total",
			Help: "Requests that a shadow policy would have denied.",
		}, []string{"policy"}),
		missingIDs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "weir_missing_identifier_total",
			Help: "Requests that lacked the identifier of a policy that matched them; they are counted under \"-\".",
		}, []string{"policy", "axis"}),
		noRule: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "weir_unmatched_total",
			Help: "Requests that no policy matched.",
		}),
		repaidUnits: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "weir_local_repaid_units_total",
			Help: "Units spent locally that the store was told of: counted, uncounted (it is told again), or unknown (its answer was lost).",
		}, []string{"result"}),
		storeSeconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "weir_store_duration_seconds",
			Help:    "Time the store took to answer.",
			Buckets: prometheus.ExponentialBuckets(0.000001, 2.5, 15), // 1 µs … 0.4 s
		}, []string{"op"}),
		storeErrors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "weir_store_errors_total",
			Help: "Calls that the store did not answer, by kind: timeout, canceled, other, and what a Redis store tells apart (docs/reference/redis.md).",
		}, []string{"kind"}),
		revision: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "weir_rules_revision_info",
			Help: "1 for the revision of the rules in force.",
		}, []string{"revision"}),
		policies: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "weir_rules_policies",
			Help: "Policies in force.",
		}),
	}
	known := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "weir_known_denials",
		Help: "Denials remembered, to be repeated without asking the store; those that are over and have not given way yet included.",
	}, m.known)
	registry.MustRegister(known, m.repaidUnits, m.decisions, m.shadowDenials, m.missingIDs, m.noRule, m.storeSeconds, m.storeErrors, m.revision, m.policies)
	return m
}

// swapped tells of the rules now in force and forgets the series of policies that went with the old ones: else
// policies that come and go would leave their labels behind for ever.
func (m *Metrics) swapped(old, now *rules.Index) {
	m.revision.Reset()
	m.revision.WithLabelValues(now.Revision()).Set(1)
	m.policies.Set(float64(now.Len()))
	if old == nil {
		return
	}
	for policy := range old.Policies() {
		m.forgetUnless(now, policy)
	}
}

// outlived forgets, likewise, what a decision under rules of before has told of policies that are no more.
func (m *Metrics) outlived(a *Answer, now *rules.Index) {
	for i := range a.Results {
		m.forgetUnless(now, a.Results[i].Rule.Policy)
	}
}

func (m *Metrics) forgetUnless(now *rules.Index, policy string) {
	if now.Has(policy) {
		return
	}
	gone := prometheus.Labels{"policy": policy}
	m.decisions.DeletePartialMatch(gone)
	m.missingIDs.DeletePartialMatch(gone)
	m.shadowDenials.DeletePartialMatch(gone)
}

func (m *Metrics) known() float64 {
	if e := m.engine.Load(); e != nil {
		return float64(e.knownDenials())
	}
	return 0
}

// repaid counts units that the store was told of.
func (m *Metrics) repaid(units int64, uncounted bool, err error) {
	result := "counted"
	switch {
	case uncounted:
		result = "uncounted"
	case err != nil:
		result = "unknown"
	}
	m.repaidUnits.WithLabelValues(result).Add(float64(units))
}

func (m *Metrics) unmatched() { m.noRule.Inc() }

func (m *Metrics) asked(op string, took time.Duration, err error) {
	m.storeSeconds.WithLabelValues(op).Observe(took.Seconds())
	if err != nil {
		m.storeErrors.WithLabelValues(errorKind(err)).Inc()
	}
}

// errorKind is what the error says of itself, for a store knows best.
func errorKind(err error) string {
	var kinded interface{ Kind() string }
	var timeout interface{ Timeout() bool }
	switch {
	case errors.As(err, &kinded):
		return kinded.Kind()
	case errors.Is(err, context.Canceled):
		return "canceled"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return "timeout"
	default:
		return "other"
	}
}
