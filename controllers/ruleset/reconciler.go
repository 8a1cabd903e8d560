// Package ruleset brings policies to the limiters: it compiles all policies that a Limiter selects into one rule set,
// publishes that, keeps a copy for limiters that start while Redis is away, and writes into the status of each policy
// what has become of it.
package ruleset

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/internal/compile"
)

// Config is what a Reconciler works on and with.
type Config struct {
	// Limiter whose rule set this is.
	Limiter types.NamespacedName
	// Client reads policies, from a cache, and writes their status and the snapshot: its scheme knows both APIs.
	Client client.Client
	// Uncached reads the snapshot: a cache would hold all ConfigMaps of the cluster.
	Uncached client.Reader
	// Store is where the limiter's replicas get the rule set from.
	Store Store
	// Identity is the Limiter's identity table.
	Identity compile.Identity
	// KeyPrefix is what the names of counters begin with: "weir:".
	KeyPrefix string
	// Decider is the script that decides, for the status.
	Decider Script
	// Resync is how often all of it is checked when nothing happens.
	Resync time.Duration
	// Clock tells the time for conditions and metrics.
	Clock func() time.Time
	// Metrics is where the controller's metrics are registered.
	Metrics prometheus.Registerer
}

// Reconciler keeps one Limiter's rule set what the policies say. It remembers between calls what is costly to work
// out again, and nothing that a new Reconciler could not find out; it serves one call at a time.
type Reconciler struct {
	Config
	compiled compiled
	known    known
	reported reported
	snapshot snapshot
	outage   outage
	pace     pace
	metrics  *metrics
}

// New returns a Reconciler. The error is that of registering its metrics.
func New(config Config) (*Reconciler, error) {
	m, err := newMetrics(config.Metrics)
	if err != nil {
		return nil, err
	}
	return &Reconciler{Config: config, metrics: m}, nil
}

// Reconcile brings the policies as they are now to the limiter's replicas, and tells each policy how far that is.
func (r *Reconciler) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	gathered, err := r.gather(ctx)
	if err != nil {
		return ctrl.Result{}, err
	}
	policies := each(gathered)
	r.compile(gathered, policies)
	delivery := r.publish(ctx)
	r.keep(ctx)
	progress, err := r.report(ctx, policies, delivery)
	if err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: r.pace.next(r.compiled.revision, delivery, progress, r.Resync)}, nil
}
