package store

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-dev/weir/go/internal/limiter"
)

// metrics are those of the calls of the counters.
type metrics struct {
	seconds      *prometheus.HistogramVec
	spendSeconds prometheus.Observer // of seconds: to find it by its label takes longer than to observe
	errs         *prometheus.CounterVec
}

// newMetrics registers the metrics of a chain with those layers, and those of the layers.
func newMetrics(registry prometheus.Registerer, layers Layers) *metrics {
	m := &metrics{seconds: newStoreSeconds(), errs: newStoreErrors()}
	m.spendSeconds = m.seconds.WithLabelValues(opSpend)
	registry.MustRegister(m.seconds, m.errs, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "weir_known_denials",
		Help: "Cached denials, which are repeated without a call to the store. Expired denials count until they are evicted.",
	}, func() float64 {
		if layers.Denials == nil {
			return 0
		}
		return float64(layers.Denials.Len())
	}))
	if layers.Bound != nil {
		registry.MustRegister(layers.Bound)
	}
	if layers.Failover != nil {
		registry.MustRegister(layers.Failover)
	}
	if layers.Leases != nil {
		registry.MustRegister(layers.Leases)
	}
	return m
}

// called records a call of the counters.
func (m *metrics) called(op string, took time.Duration, err error) {
	observer := m.spendSeconds
	if op != opSpend {
		observer = m.seconds.WithLabelValues(op)
	}
	observer.Observe(took.Seconds())
	if err != nil {
		m.errs.WithLabelValues(limiter.ErrorKind(err)).Inc()
	}
}

// newStoreErrors returns the counter of errors. The kinds of errors of an outage begin with 0: rate() misses the first errors of a series that
// begins with them.
func newStoreErrors() *prometheus.CounterVec {
	errs := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "weir_store_errors_total",
		Help: "Failed calls to the store by kind: timeout, canceled, other, or one of the kinds of Redis errors (docs/reference/redis.md).",
	}, []string{"kind"})
	for _, kind := range []string{limiter.KindTimeout, "disconnected", "unreachable", "unavailable"} {
		errs.WithLabelValues(kind)
	}
	return errs
}

func newStoreSeconds() *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "weir_store_duration_seconds",
		Help:    "Duration of calls to the store, in seconds.",
		Buckets: prometheus.ExponentialBuckets(0.000001, 2.5, 15), // 1 µs … 0.4 s
		// In addition to the classic buckets, for Prometheus servers that scrape native histograms.
		NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 160, NativeHistogramMinResetDuration: time.Hour,
	}, []string{"op"})
}
