// Package ruleset is the controller that brings policies to Limiters. For each Limiter it compiles the policies that the
// Limiter selects into one rule set (package selection), publishes the rule set (package publish), and writes the statuses of
// the Limiter and of the policies (package report).
package ruleset

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/controllers/ruleset/report"
	"github.com/weir-dev/weir/limiter"
)

// Reconciler reconciles Limiters, several at the same time. What it remembers between calls saves work: a new Reconciler
// determines the same again.
type Reconciler struct {
	Config

	// Reporter writes the statuses of policies.
	Reporter *report.Reporter

	states  *report.LimiterStates
	metrics *metrics
	// publishWait is how long a reconciliation waits for Redis.
	publishWait time.Duration
	changes     changeCounter

	mu       sync.Mutex
	limiters map[types.NamespacedName]*limiterReconciler
}

// New returns a Reconciler with its Reporter. It fails if the metrics cannot be registered.
func New(config Config) (*Reconciler, error) {
	m, err := newMetrics(config.Metrics)
	if err != nil {
		return nil, err
	}
	if config.HashKey == nil {
		config.HashKey = limiter.RandomHashKey()
	}
	states := report.NewLimiterStates()
	reporter := &report.Reporter{
		Client: config.Client, Gateways: config.gateways(), Clock: config.Clock, States: states, Events: report.NewEvents(config.Client, config.Clock),
	}
	return &Reconciler{
		Config:      config,
		Reporter:    reporter,
		states:      states,
		publishWait: publishWait,
		metrics:     m,
		limiters:    map[types.NamespacedName]*limiterReconciler{},
	}, nil
}

// Reconcile brings the current policies to the replicas of the Limiter.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var limiter v1alpha1.Limiter
	if err := r.Client.Get(ctx, request.NamespacedName, &limiter); client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("read Limiter %s: %w", request.NamespacedName, err)
	}
	if limiter.UID == "" || !limiter.DeletionTimestamp.IsZero() {
		r.stop(request.NamespacedName, limiter.UID)
		return ctrl.Result{}, nil
	}
	l := r.limiter(request.NamespacedName)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopped == limiter.UID { // the cache does not have the deletion yet
		return ctrl.Result{}, nil
	}
	return l.reconcile(ctx, &limiter)
}

// SetWebhooks sets for which policies API servers call each Limiter, by its UID. The status of policies with match.kubernetes waits for it.
func (r *Reconciler) SetWebhooks(webhooks map[types.UID]report.Webhook) {
	r.states.SetWebhooks(webhooks)
}

// Forget deletes the Limiter's rule sets and heartbeats from its Redis, and stops publishing for it.
func (r *Reconciler) Forget(ctx context.Context, limiter *v1alpha1.Limiter) error {
	l := r.limiter(client.ObjectKeyFromObject(limiter))
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopped = limiter.UID
	l.publishing.cancel()
	return l.publisher.Clear(ctx, limiter)
}

func (r *Reconciler) limiter(name types.NamespacedName) *limiterReconciler {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.limiters[name] == nil {
		r.limiters[name] = newLimiterReconciler(r.Config, name, r.states, r.metrics, &r.changes, r.publishWait)
	}
	return r.limiters[name]
}

// stop stops publishing for a Limiter that is being deleted. For one that no longer exists, uid is empty and its connections
// are closed too: until then, Forget uses them.
func (r *Reconciler) stop(name types.NamespacedName, uid types.UID) {
	r.states.Remove(name)
	r.mu.Lock()
	l := r.limiters[name]
	if uid == "" {
		delete(r.limiters, name)
	}
	r.mu.Unlock()
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	r.metrics.remove(name)
	if uid == "" {
		l.publishing.cancel()
		l.publisher.Close()
		return
	}
	l.stopped = uid
}
