package ruleset

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/weir-dev/weir/api/v1alpha1"
)

// enforcer does the work for one Limiter, a call at a time, and remembers what was found.
type enforcer struct {
	Config

	name    types.NamespacedName
	board   *board
	metrics *metrics

	mu sync.Mutex // held by whoever uses what follows
	// left is the Limiter that nothing is published for any more.
	left types.UID
	// redis is what store was opened for; store is nil before.
	redis v1alpha1.Redis
	store Store

	compiled *compiled
	edits    edits
	known    known
	snapshot snapshot
	outage   outage
	look     look
	pace     pace
	told     toldLimiter
}

// enforce is what a Reconciler does for one Limiter.
func (e *enforcer) enforce(ctx context.Context, limiter *v1alpha1.Limiter) (ctrl.Result, error) {
	gathered, err := e.gather(ctx)
	if err != nil {
		return ctrl.Result{}, err
	}
	selected, unselectable := gathered.SelectedBy(&limiter.Spec)
	e.compile(limiter, selected, gathered.namespaces)
	delivery := e.publish(ctx, limiter)
	e.keep(ctx, limiter)
	e.metrics.reached(e.edits, e.compiled, delivery, e.Clock())
	e.board.post(standing{limiter: e.name, considered: gathered.considered(), compiled: e.compiled, delivery: delivery})
	if err := e.tell(ctx, limiter, delivery, unselectable); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: e.pace.next(e.compiled, delivery, e.Resync)}, nil
}

// connect opens the Redis that the Limiter names, unless it is open.
func (e *enforcer) connect(limiter *v1alpha1.Limiter) error {
	if e.store != nil && equality.Semantic.DeepEqual(e.redis, limiter.Spec.Redis) {
		return nil
	}
	e.disconnect()
	store, err := e.Open(limiter)
	if err != nil {
		return fmt.Errorf("spec.redis: %w", err)
	}
	e.store, e.redis = store, *limiter.Spec.Redis.DeepCopy()
	return nil
}

// disconnect forgets the Redis, and all that was seen of it.
func (e *enforcer) disconnect() {
	if e.store != nil {
		_ = e.store.Close() // whose connections are given up anyway
	}
	e.store, e.outage, e.look = nil, outage{}, look{}
}
