package main

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-dev/weir/limiter/redisclient"
)

// The intervals between two inspections of Redis.
const (
	inspectInterval = 30 * time.Second
	inspectRetry    = 2 * time.Second // after an inspection failed
)

// inspector checks the configuration of Redis for settings that make it drop counters.
type inspector struct {
	client   *redisclient.Client
	log      *slog.Logger
	interval time.Duration

	evicting prometheus.Gauge
	evicted  prometheus.Gauge
	warned   []string // warnings of the last inspection
}

// newInspector returns an inspector and registers its metrics.
func newInspector(client *redisclient.Client, registry prometheus.Registerer, log *slog.Logger) *inspector {
	i := &inspector{
		client: client, log: log, interval: inspectInterval,
		evicting: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "weir_redis_evicting",
			Help: "1 while the maxmemory-policy of a Redis primary allows it to evict counters when its memory is full, else 0.",
		}),
		evicted: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "weir_redis_evicted_keys",
			Help: "Keys that the Redis primaries have evicted since they started, because their memory was full.",
		}),
	}
	registry.MustRegister(i.evicting, i.evicted)
	return i
}

// run inspects Redis periodically and logs changes, until ctx is done. It fails if the version of Redis is too old.
func (i *inspector) run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		found, err := i.client.Inspect(ctx)
		switch {
		case errors.Is(err, redisclient.ErrTooOld):
			return err
		case err != nil:
			timer.Reset(inspectRetry) // the store logs that Redis is unavailable
		default:
			i.report(found)
			timer.Reset(i.interval)
		}
	}
}

// report sets the metrics and logs each warning when it appears and when it disappears.
func (i *inspector) report(found redisclient.Inspection) {
	i.evicting.Set(min(1, float64(len(found.Warnings))))
	i.evicted.Set(float64(found.Evicted))
	for _, warning := range found.Warnings {
		if !slices.Contains(i.warned, warning) {
			i.log.Warn("Redis can evict or lose counters", "reason", warning)
		}
	}
	for _, warning := range i.warned {
		if !slices.Contains(found.Warnings, warning) {
			i.log.Info("Redis no longer evicts or loses counters for this reason", "reason", warning)
		}
	}
	i.warned = found.Warnings
}
