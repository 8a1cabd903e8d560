// Package monitor watches what a limiter depends on: Redis and its memory, the snapshot, and the heap of the process.
package monitor

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/bound"
	"github.com/weir-dev/weir/limiter/redisclient"
)

// The intervals between two inspections of Redis.
const (
	inspectInterval = 30 * time.Second
	inspectRetry    = 2 * time.Second // after an inspection failed
	memoryInterval  = time.Second     // between two readings of the memory
)

// Inspector checks the configuration of Redis for settings that make it drop counters, and its clocks.
type Inspector struct {
	client   *redisclient.Client
	log      *slog.Logger
	interval time.Duration

	evicting prometheus.Gauge
	evicted  prometheus.Gauge
	skew     prometheus.Gauge
	warned   []string        // warnings of the last inspection
	wrong    map[string]bool // primaries with a wrong clock then
}

// NewInspector returns an Inspector and registers its metrics.
func NewInspector(client *redisclient.Client, registry prometheus.Registerer, log *slog.Logger) *Inspector {
	i := &Inspector{
		client: client, log: log, interval: inspectInterval,
		evicting: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "weir_redis_evicting",
			Help: "1 while the maxmemory-policy of a Redis primary allows it to evict counters when its memory is full, else 0.",
		}),
		evicted: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "weir_redis_evicted_keys",
			Help: "Keys that the Redis primaries have evicted since they started, because their memory was full.",
		}),
		skew: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "weir_redis_clock_skew_seconds",
			Help: "How far the clock of a Redis primary is ahead of the clock of this process, in seconds, negative if it is behind. It is that of the " +
				"primary whose clock differs most.",
		}),
	}
	registry.MustRegister(i.evicting, i.evicted, i.skew)
	return i
}

// Run inspects Redis periodically and logs changes, until ctx is done. It fails if the version of Redis is too old.
func (i *Inspector) Run(ctx context.Context) error {
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
func (i *Inspector) report(found redisclient.Inspection) {
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
	i.reportClocks(found)
}

// reportClocks does this for the clocks.
func (i *Inspector) reportClocks(found redisclient.Inspection) {
	i.skew.Set(found.Clock.Ahead.Seconds())
	wrong := map[string]bool{}
	for _, clock := range found.WrongClocks {
		wrong[clock.Primary] = true
		if !i.wrong[clock.Primary] {
			i.log.Warn("the clock of Redis differs from the clock of this process: synchronize both clocks", "primary", clock.Primary,
				"ahead", clock.Ahead.Round(time.Millisecond))
		}
	}
	for primary := range i.wrong {
		if !wrong[primary] {
			i.log.Info("the clock of Redis no longer differs from the clock of this process", "primary", primary)
		}
	}
	i.wrong = wrong
}

// MemoryWatch reads the memory of Redis periodically.
type MemoryWatch struct {
	client   *redisclient.Client
	bound    *bound.Counters
	log      *slog.Logger
	Interval time.Duration

	memory  limiter.Memory // the last reading
	warned  bool           // that the limit is unknown
	crowded map[string]limiter.Crowding
}

// NewMemoryWatch returns a MemoryWatch that reads the memory once a second.
func NewMemoryWatch(client *redisclient.Client, identifiers *bound.Counters, log *slog.Logger) *MemoryWatch {
	return &MemoryWatch{client: client, bound: identifiers, log: log, Interval: memoryInterval}
}

// Run reads the memory until ctx is done. Until the first reading, the limit is unknown. A failed reading keeps the one before.
func (w *MemoryWatch) Run(ctx context.Context) {
	ticker := time.NewTicker(w.Interval)
	defer ticker.Stop()
	for {
		if memory, err := w.client.Memory(ctx); err == nil { // the store logs that Redis is unavailable
			w.memory = memory
			w.logLimit()
		}
		w.bound.ObserveMemory(w.memory)
		w.logCrowded(w.bound.Crowded())
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func (w *MemoryWatch) logLimit() {
	unknown := !w.memory.Rejects
	if unknown && !w.warned {
		w.log.Info("Redis has no maxmemory, evicts counters, or does not permit INFO, so Weir estimates the memory of its counters; "+
			"set maxmemory, and maxmemory-policy noeviction", "bytes", w.memory.Max)
	}
	w.warned = unknown
}

// logCrowded logs each policy when its new identifiers get no counter of their own, or soon will not.
func (w *MemoryWatch) logCrowded(now map[string]limiter.Crowding) {
	for _, policy := range slices.Sorted(maps.Keys(now)) {
		switch crowding := now[policy]; {
		case crowding == w.crowded[policy]:
		case crowding.Over():
			w.log.Warn("new identifiers of a policy get no counter of their own", "policy", policy, "reason", crowding)
		default:
			w.log.Warn("new identifiers of a policy get no counter of their own if there are more", "policy", policy, "reason", crowding)
		}
	}
	w.crowded = now
}
