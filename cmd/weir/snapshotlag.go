package main

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-dev/weir/limiter/source"
)

// snapshotInterval is the time between two comparisons of the snapshot with the active rules.
const snapshotInterval = 15 * time.Second

// snapshotLag reports whether a limiter that starts without Redis would get the active rules.
type snapshotLag struct {
	lag      *source.SnapshotLag
	revision func() string // of the active rules
	seconds  prometheus.Gauge
	interval time.Duration
}

// newSnapshotLag returns the snapshotLag of the snapshot at path, and registers its metric.
func newSnapshotLag(path string, revision func() string, registry prometheus.Registerer) *snapshotLag {
	l := &snapshotLag{
		lag: source.NewSnapshotLag(path), revision: revision, interval: snapshotInterval,
		seconds: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "weir_snapshot_lag_seconds",
			Help: "How long the snapshot has not had the active rules, in seconds: a limiter that starts without Redis would enforce older ones, or have no rules. " +
				"0 if it has them, or if no rules are active. It is absent without --snapshot. A change takes the kubelet about a minute.",
		}),
	}
	registry.MustRegister(l.seconds)
	return l
}

// run measures periodically until ctx is done.
func (l *snapshotLag) run(ctx context.Context) {
	tick := time.NewTicker(l.interval)
	defer tick.Stop()
	for {
		l.seconds.Set(l.lag.Measure(time.Now(), l.revision()).Seconds())
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// snapshotLagTasks returns the task that measures the lag of the snapshot at path, unless path is empty.
func snapshotLagTasks(path string, p *process) []func(context.Context) error {
	if path == "" {
		return nil
	}
	return []func(context.Context) error{asTask(newSnapshotLag(path, p.revision, p.registry).run)}
}
