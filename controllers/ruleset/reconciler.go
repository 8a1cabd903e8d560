// Package ruleset is the controller that brings policies to Limiters. For each Limiter it compiles the policies that the
// Limiter selects into one rule set (package selection), publishes the rule set (package publish), and writes the statuses of
// the Limiter and of the policies (package report). After the Limiter is deleted, it removes the rules from Redis.
package ruleset

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

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
	changes     report.ChangeCounter

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
		return r.remove(ctx, request.NamespacedName, limiter.UID), nil
	}
	l := r.limiter(request.NamespacedName)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopped == limiter.UID { // the cache does not have the deletion yet
		return ctrl.Result{}, nil
	}
	l.latest, l.deleted = limiter.DeepCopy(), time.Time{}
	return l.reconcile(ctx, &limiter)
}

// SetWebhooks sets for which policies API servers call each Limiter, by its UID. The status of policies with match.kubernetes waits for it.
func (r *Reconciler) SetWebhooks(webhooks map[types.UID]report.Webhook) {
	r.states.SetWebhooks(webhooks)
}

func (r *Reconciler) limiter(name types.NamespacedName) *limiterReconciler {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.limiters[name] == nil {
		r.limiters[name] = newLimiterReconciler(r.Config, name, r.states, r.metrics, &r.changes, r.publishWait)
	}
	return r.limiters[name]
}

const (
	// clearTimeout is how long the operator tries to remove the rules of a deleted Limiter from Redis. The Limiter does not wait for it.
	// What then remains in Redis is small, and heartbeats expire.
	clearTimeout = 30 * time.Second
	// clearAttemptTimeout bounds one attempt. Meanwhile a worker of the controller waits, which other Limiters need.
	clearAttemptTimeout = time.Second
	// clearRetry is the time from a failed attempt to the next one.
	clearRetry = 2 * time.Second
)

// remove stops publishing for a Limiter that is being deleted, or no longer exists: then uid is empty. It removes the rules and heartbeats
// of the Limiter from Redis, and returns when to try again.
func (r *Reconciler) remove(ctx context.Context, name types.NamespacedName, uid types.UID) ctrl.Result {
	r.states.Remove(name)
	r.mu.Lock()
	l := r.limiters[name]
	r.mu.Unlock()
	if l == nil {
		return ctrl.Result{}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	r.metrics.remove(name)
	if !l.clear(ctx, uid) {
		return ctrl.Result{RequeueAfter: clearRetry}
	}
	if uid == "" {
		r.mu.Lock()
		delete(r.limiters, name)
		r.mu.Unlock()
		l.publisher.Close()
	}
	return ctrl.Result{}
}

// clear removes the rules and heartbeats of the deleted Limiter from Redis, and reports whether no further attempt is needed.
func (l *limiterReconciler) clear(ctx context.Context, uid types.UID) bool {
	l.publishing.cancel()
	if l.latest == nil { // already cleared
		return true
	}
	if l.deleted.IsZero() {
		l.deleted = l.Clock()
	}
	l.stopped = cmp.Or(uid, l.latest.UID)
	attempt, cancel := context.WithTimeout(ctx, clearAttemptTimeout)
	defer cancel()
	if err := l.publisher.Clear(attempt, l.latest); err != nil {
		if l.Clock().Sub(l.deleted) < clearTimeout {
			log.FromContext(ctx).Info("Cannot remove the rules of the deleted Limiter from Redis; retrying", "error", err.Error())
			return false
		}
		log.FromContext(ctx).Error(err, "The rules of the deleted Limiter remain in Redis: delete its keys", "keys", l.KeyPrefix+"rules:"+l.name.String()+"*")
	}
	l.latest, l.deleted = nil, time.Time{}
	return true
}
