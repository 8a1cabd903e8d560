// Package ruleset brings policies to Limiters: for each it compiles the policies that it selects into one rule set,
// publishes that in its Redis, keeps a copy for replicas that start while Redis is away, and says in its status what came
// of it. What has become of a policy, with all the Limiters that select it, is written into the policy's status by the
// [Reporter].
package ruleset

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
)

// Config is what a Reconciler and a Reporter work on and with.
type Config struct {
	// Client reads Limiters, policies and namespaces, from a cache, and writes statuses and snapshots.
	Client client.Client
	// Uncached reads snapshots: a cache would hold all ConfigMaps of the cluster.
	Uncached client.Reader
	// Open opens the Redis of a Limiter. It does not connect.
	Open func(*v1alpha1.Limiter) (Store, error)
	// KeyPrefix is what the names of counters begin with: "weir:".
	KeyPrefix string
	// Decider is the script that decides, for the status.
	Decider Script
	// Resync is how often Redis and the snapshot are checked when nothing happens, and after a minute's worth of it what rule sets
	// are made of.
	Resync time.Duration
	// Clock tells the time for conditions and metrics.
	Clock func() time.Time
	// Metrics is where the controller's metrics are registered.
	Metrics prometheus.Registerer
}

// Reconciler keeps the rule set of every Limiter what the policies say. It remembers between calls what is costly to work
// out again, and nothing that a new Reconciler could not find out; it serves several Limiters at once.
type Reconciler struct {
	Config

	// Reporter tells policies what came of them.
	Reporter *Reporter

	board   *board
	metrics *metrics
	changes changes

	mu        sync.Mutex
	enforcers map[types.NamespacedName]*enforcer
}

// New returns a Reconciler with its Reporter. The error is that of registering its metrics.
func New(config Config) (*Reconciler, error) {
	m, err := newMetrics(config.Metrics)
	if err != nil {
		return nil, err
	}
	b := newBoard()
	return &Reconciler{
		Config:    config,
		Reporter:  newReporter(config, b),
		board:     b,
		metrics:   m,
		enforcers: map[types.NamespacedName]*enforcer{},
	}, nil
}

// Reconcile brings the policies as they are now to the replicas of the Limiter.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var limiter v1alpha1.Limiter
	if err := r.Client.Get(ctx, request.NamespacedName, &limiter); client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("read Limiter %s: %w", request.NamespacedName, err)
	}
	if limiter.UID == "" || !limiter.DeletionTimestamp.IsZero() {
		r.dismiss(request.NamespacedName, limiter.UID)
		return ctrl.Result{}, nil
	}
	e := r.enforcer(request.NamespacedName)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.left == limiter.UID { // the cache has yet to show that it is being deleted
		return ctrl.Result{}, nil
	}
	return e.enforce(ctx, &limiter)
}

// Forget takes the Limiter's rules and heartbeats out of its Redis, and sees to it that they do not come back.
func (r *Reconciler) Forget(ctx context.Context, limiter *v1alpha1.Limiter) error {
	e := r.enforcer(client.ObjectKeyFromObject(limiter))
	e.mu.Lock()
	defer e.mu.Unlock()
	e.left = limiter.UID
	if err := e.connect(ctx, limiter); err != nil {
		return err
	}
	return e.store.Clear(ctx)
}

func (r *Reconciler) enforcer(name types.NamespacedName) *enforcer {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.enforcers[name] == nil {
		r.enforcers[name] = &enforcer{Config: r.Config, name: name, board: r.board, metrics: r.metrics, changes: &r.changes}
	}
	return r.enforcers[name]
}

// dismiss stops to enforce what a Limiter selects. While it is still there, what is needed to forget it stays.
func (r *Reconciler) dismiss(name types.NamespacedName, uid types.UID) {
	r.board.remove(name)
	r.mu.Lock()
	e := r.enforcers[name]
	if uid == "" {
		delete(r.enforcers, name)
	}
	r.mu.Unlock()
	if e == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	r.metrics.forget(name)
	if uid == "" {
		e.disconnect()
		return
	}
	e.left = uid
}
