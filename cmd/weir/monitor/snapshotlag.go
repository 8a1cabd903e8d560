package monitor

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-dev/weir/limiter/source"
)

// snapshotInterval is the time between two comparisons of the snapshot with the active rules.
const snapshotInterval = 15 * time.Second

// SnapshotLag reports whether a limiter that starts without Redis would get the active rules.
type SnapshotLag struct {
	lag      *source.SnapshotLag
	revision func() string // of the active rules
	seconds  prometheus.Gauge
	interval time.Duration
}

// NewSnapshotLag returns the SnapshotLag of the snapshot at path, and registers its metric.
func NewSnapshotLag(path string, revision func() string, registry prometheus.Registerer) *SnapshotLag {
	l := &SnapshotLag{
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

// RuleSetTasks registers the metric of the rule set that the limiter rejects, see [RegisterRejected]. It returns the task that measures the lag of the
// snapshot at path, unless path is empty.
func RuleSetTasks(registry prometheus.Registerer, rejected func() error, path string, revision func() string) []func(context.Context) error {
	RegisterRejected(registry, rejected)
	if path == "" {
		return nil
	}
	lag := NewSnapshotLag(path, revision, registry)
	return []func(context.Context) error{func(ctx context.Context) error { lag.Run(ctx); return nil }}
}

// Run measures periodically until ctx is done.
func (l *SnapshotLag) Run(ctx context.Context) {
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
