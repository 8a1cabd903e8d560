package engine

import "github.com/prometheus/client_golang/prometheus"

// localMetrics tell of the times when the store is away, as an Engine with a stand-in knows them.
type localMetrics struct {
	engine *Engine

	mode, activations, seconds, counters, bytes, owing, evicted, floored, lost *prometheus.Desc
}

func newLocalMetrics(e *Engine) *localMetrics {
	describe := func(name, help string) *prometheus.Desc { return prometheus.NewDesc(name, help, nil, nil) }
	return &localMetrics{
		engine:      e,
		mode:        describe("weir_local_mode", "1 while the store, or a part of it, is away and policies decide by their onStoreFailure."),
		activations: describe("weir_local_mode_activations_total", "Times that the store, or a part of it, went away."),
		seconds:     describe("weir_local_mode_seconds_total", "Time for which it was away, in seconds."),
		counters:    describe("weir_local_counters", "Counters that are followed in memory, to stand in for the store."),
		bytes:       describe("weir_local_bytes", "Memory that they take, about."),
		owing:       describe("weir_local_owing", "Counters with units that the store is still to be told of."),
		evicted:     describe("weir_local_evicted_total", "Counters that gave way to others before their windows were over."),
		floored:     describe("weir_local_floored_total", "Decisions on counters that began, for that, with what evicted ones had spent."),
		lost:        describe("weir_local_lost_units_total", "Units spent on counters that were evicted before the store could be told."),
	}
}

// Describe implements prometheus.Collector.
func (m *localMetrics) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.mode, m.activations, m.seconds, m.counters, m.bytes, m.owing, m.evicted, m.floored, m.lost} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (m *localMetrics) Collect(to chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, value float64) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value)
	}
	count := func(d *prometheus.Desc, value float64) {
		to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, value)
	}
	stats := m.engine.local.Stats()
	began, lasted := m.engine.outages()
	mode := 0.0
	if _, local := m.engine.Local(); local {
		mode = 1
	}
	gauge(m.mode, mode)
	count(m.activations, float64(began))
	count(m.seconds, lasted.Seconds())
	gauge(m.counters, float64(stats.Held))
	gauge(m.bytes, float64(stats.Bytes))
	gauge(m.owing, float64(stats.Owing))
	count(m.evicted, float64(stats.Evicted))
	count(m.floored, float64(stats.Floored))
	count(m.lost, float64(stats.Lost))
}
