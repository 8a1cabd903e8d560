package failover

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-dev/weir/limiter"
)

// metrics describe local mode.
type metrics struct {
	mode, activations, seconds, replicas, counters, bytes, unreported, evicted, floored, lost *prometheus.Desc

	reportedUnits *prometheus.CounterVec
	probeErrors   *prometheus.CounterVec
}

func newMetrics() *metrics {
	describe := func(name, help string) *prometheus.Desc { return prometheus.NewDesc(name, help, nil, nil) }
	m := &metrics{
		mode:        describe("weir_local_mode", "1 while the store, or a part of it, is unavailable and policies apply their onStoreFailure; otherwise 0."),
		activations: describe("weir_local_mode_activations_total", "Times that the store, or a part of it, became unavailable."),
		seconds:     describe("weir_local_mode_seconds_total", "Seconds during which the store, or a part of it, was unavailable."),
		replicas: describe("weir_local_replicas",
			"Replicas that share each limit while the store is unavailable, including this one. An increase applies immediately, a decrease after 10 seconds."),
		counters:   describe("weir_local_counters", "Counters in memory, for use while the store is unavailable."),
		bytes:      describe("weir_local_bytes", "Approximate memory of the counters in memory, in bytes."),
		unreported: describe("weir_local_owing", "Counters in memory with units that are not reported to the store yet."),
		evicted:    describe("weir_local_evicted_total", "Counters evicted from memory before their windows ended."),
		floored: describe("weir_local_floored_total",
			"Decisions on counters that were not in memory and so began with the estimated usage of evicted counters."),
		lost: describe("weir_local_lost_units_total", "Units spent on counters that were evicted before they could be reported to the store."),
		reportedUnits: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "weir_local_repaid_units_total",
			Help: "Units spent locally and then reported to the store: result is counted, uncounted (they are reported again) " +
				"or unknown (the reply was lost).",
		}, []string{"result"}),
		probeErrors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "weir_redis_probe_errors_total",
			Help: "Failed probes of an unavailable Redis node, by kind, as weir_store_errors_total. During an outage, calls are not made, and their errors " +
				"are those of its beginning: the kinds of the probes are those of now.",
		}, []string{"kind"}),
	}
	for _, kind := range []string{limiter.KindTimeout, "disconnected", "unreachable", "denied", "credentials"} {
		m.probeErrors.WithLabelValues(kind)
	}
	for _, result := range []string{resultCounted, resultUncounted, resultUnknown} {
		m.reportedUnits.WithLabelValues(result) // with a series that begins with the first outage, rate() misses this outage
	}
	return m
}

// Values of the label result.
const (
	resultCounted   = "counted"
	resultUncounted = "uncounted"
	resultUnknown   = "unknown"
)

// reported counts units of a report by its result.
func (m *metrics) reported(units int64, uncounted bool, err error) {
	result := resultCounted
	switch {
	case uncounted:
		result = resultUncounted
	case err != nil:
		result = resultUnknown
	}
	m.reportedUnits.WithLabelValues(result).Add(float64(units))
}

// Describe implements prometheus.Collector.
func (s *Store) Describe(ch chan<- *prometheus.Desc) {
	m := s.metrics
	for _, d := range []*prometheus.Desc{m.mode, m.activations, m.seconds, m.replicas, m.counters, m.bytes, m.unreported, m.evicted, m.floored, m.lost} {
		ch <- d
	}
	m.reportedUnits.Describe(ch)
	m.probeErrors.Describe(ch)
}

// Collect implements prometheus.Collector.
func (s *Store) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, value float64) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value)
	}
	counter := func(d *prometheus.Desc, value float64) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, value)
	}
	m, stats := s.metrics, s.local.Stats()
	began, lasted := s.outages.totals()
	mode := 0.0
	if _, active := s.LocalMode(); active {
		mode = 1
	}
	gauge(m.mode, mode)
	counter(m.activations, float64(began))
	counter(m.seconds, lasted.Seconds())
	gauge(m.replicas, float64(stats.Replicas))
	gauge(m.counters, float64(stats.Held))
	gauge(m.bytes, float64(stats.Bytes))
	gauge(m.unreported, float64(stats.Unreported))
	counter(m.evicted, float64(stats.Evicted))
	counter(m.floored, float64(stats.Estimated))
	counter(m.lost, float64(stats.Lost))
	m.reportedUnits.Collect(ch)
	m.probeErrors.Collect(ch)
}
