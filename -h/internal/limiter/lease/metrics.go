package lease

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the figures of Leases. Units are counted when a lease begins and ends, not by each request.
type metrics struct {
	leases                              *Leases
	units                               *prometheus.Desc
	counters                            *prometheus.Desc
	leased, admitted, returned, expired atomic.Int64
}

func newMetrics(l *Leases) *metrics {
	return &metrics{
		leases: l,
		units: prometheus.NewDesc("weir_lease_units_total",
			"Units of leases by event: leased (spent in Redis ahead), admitted (from memory), returned (unused, refunded in Redis) or "+
				"expired (unused, and not refunded). Admitted units are counted when their lease ends.", []string{"event"}, nil),
		counters: prometheus.NewDesc("weir_lease_counters", "Counters that this replica charges often under policies with lease.", nil, nil),
	}
}

// Describe implements prometheus.Collector.
func (l *Leases) Describe(ch chan<- *prometheus.Desc) {
	ch <- l.metrics.units
	ch <- l.metrics.counters
}

// Collect implements prometheus.Collector.
func (l *Leases) Collect(ch chan<- prometheus.Metric) {
	m := l.metrics
	for event, units := range map[string]*atomic.Int64{
		"leased": &m.leased, "admitted": &m.admitted, "returned": &m.returned, "expired": &m.expired,
	} {
		ch <- prometheus.MustNewConstMetric(m.units, prometheus.CounterValue, float64(units.Load()), event)
	}
	ch <- prometheus.MustNewConstMetric(m.counters, prometheus.GaugeValue, float64(l.count.Load()))
}
