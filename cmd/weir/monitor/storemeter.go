package monitor

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-dev/weir/limiter/redisstore"
)

// StoreMeter has the metrics of calls to Redis that the engine cannot see: how they share round trips, and circuit breakers.
type StoreMeter struct {
	calls   prometheus.Histogram
	waited  prometheus.Histogram
	changes *prometheus.CounterVec
}

// NewStoreMeter returns a meter without observations.
func NewStoreMeter() *StoreMeter {
	m := &StoreMeter{
		calls: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "weir_redis_batch_calls",
			Help:    "Calls that share one round trip to Redis, at most 64. More than one shows that calls waited for others.",
			Buckets: []float64{1, 2, 4, 8, 16, 32, 64},
		}),
		waited: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:                        "weir_redis_queue_seconds",
			Help:                        "Time from the start of a call to Redis until it is sent, in seconds. It is a part of weir_store_duration_seconds.",
			Buckets:                     prometheus.ExponentialBuckets(0.00001, 4, 9), // 10 µs … 0.66 s
			NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 160, NativeHistogramMinResetDuration: time.Hour,
		}),
		changes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "weir_redis_breaker_changes_total",
			Help: "Changes of the circuit breakers, one for each Redis node, by their new state: open (calls fail immediately), recovering (only usage is " +
				"reported) or closed. A breaker that opens and closes without local mode shows a broken connection, not an outage.",
		}, []string{"state"}),
	}
	for _, state := range []redisstore.BreakerState{redisstore.BreakerOpen, redisstore.BreakerRecovering, redisstore.BreakerClosed} {
		m.changes.WithLabelValues(string(state)) // an alert sees the first change
	}
	return m
}

// Sent implements redisstore.Meter.
func (m *StoreMeter) Sent(b redisstore.Batch) {
	m.calls.Observe(float64(b.Calls()))
	for i := range b.Calls() {
		m.waited.Observe(b.Waited(i).Seconds())
	}
}

// BreakerChanged implements redisstore.Meter.
func (m *StoreMeter) BreakerChanged(state redisstore.BreakerState) {
	m.changes.WithLabelValues(string(state)).Inc()
}

// Collectors returns the metrics.
// Collectors returns the metrics.
func (m *StoreMeter) Collectors() []prometheus.Collector {
	return []prometheus.Collector{m.calls, m.waited, m.changes}
}
