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

// The pauses between two looks at Redis.
const (
	inspectEvery = 30 * time.Second
	inspectAgain = 2 * time.Second // when it did not answer
)

// inspector looks at Redis for what makes it forget counters.
type inspector struct {
	client *redisclient.Client
	log    *slog.Logger
	every  time.Duration

	evicting prometheus.Gauge
	evicted  prometheus.Gauge
	warned   []string // at the last look
}

// newInspector registers what the inspector measures.
func newInspector(client *redisclient.Client, registry prometheus.Registerer, log *slog.Logger) *inspector {
	i := &inspector{
		client: client, log: log, every: inspectEvery,
		evicting: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "weir_redis_evicting",
			Help: "1 while a Redis primary may drop counters when its memory is full, for its maxmemory-policy; else 0.",
		}),
		evicted: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "weir_redis_evicted_keys",
			Help: "Keys that the Redis primaries have dropped for want of memory since they started.",
		}),
	}
	registry.MustRegister(i.evicting, i.evicted)
	return i
}

// run looks at Redis again and again, and says what has changed. It fails if Redis is too old, and ends with its context
// else.
func (i *inspector) run(ctx context.Context) error {
	look := time.NewTimer(0)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-look.C:
		}
		found, err := i.client.Inspect(ctx)
		switch {
		case errors.Is(err, redisclient.ErrTooOld):
			return err
		case err != nil:
			look.Reset(inspectAgain) // others tell that Redis is away
		default:
			i.report(found)
			look.Reset(i.every)
		}
	}
}

// report logs a warning when it appears and when it has gone.
func (i *inspector) report(found redisclient.Inspection) {
	i.evicting.Set(min(1, float64(len(found.Warnings))))
	i.evicted.Set(float64(found.Evicted))
	for _, warning := range found.Warnings {
		if !slices.Contains(i.warned, warning) {
			i.log.Warn("Redis may forget counters", "because", warning)
		}
	}
	for _, warning := range i.warned {
		if !slices.Contains(found.Warnings, warning) {
			i.log.Info("Redis forgets no counters any more", "was", warning)
		}
	}
	i.warned = found.Warnings
}
