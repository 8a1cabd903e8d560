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
	changes *changes

	mu sync.Mutex // held by whoever uses what follows
	// left is the Limiter that nothing is published for any more.
	left types.UID
	// redis is what store was opened for; store is nil before.
	redis v1alpha1.Redis
	store Store

	chosen   chosen
	compiled *compiled
	edits    edits
	known    known
	snapshot snapshot
	outage   outage
	look     look
	pace     pace
	told     toldLimiter
}

// chosen remembers what the Limiter chose from, and when.
type chosen struct {
	changes      uint64 // seen before
	limiter      mark
	considered   map[types.UID]int64 // generations of all policies
	unselectable error               // what is wrong with its selectors
}

// enforce is what a Reconciler does for one Limiter.
func (e *enforcer) enforce(ctx context.Context, limiter *v1alpha1.Limiter) (ctrl.Result, error) {
	if err := e.choose(ctx, limiter); err != nil {
		return ctrl.Result{}, err
	}
	delivery := e.publish(ctx, limiter)
	e.keep(ctx, limiter)
	e.metrics.reached(e.edits, e.compiled, delivery, e.Clock())
	e.board.post(standing{limiter: e.name, considered: e.chosen.considered, compiled: e.compiled, delivery: delivery})
	if err := e.tell(ctx, limiter, delivery, e.chosen.unselectable); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: e.pace.next(e.compiled, delivery, e.Resync)}, nil
}

// choose makes e.compiled that of the policies that the Limiter selects, unless nothing has changed.
func (e *enforcer) choose(ctx context.Context, limiter *v1alpha1.Limiter) error {
	now, anything := e.changes.since(e.chosen.changes)
	is := markOf(limiter)
	if !anything && e.chosen.limiter == is {
		return nil
	}
	gathered, err := e.gather(ctx)
	if err != nil {
		return err
	}
	selected, unselectable := gathered.SelectedBy(&limiter.Spec)
	e.compile(limiter, selected, gathered.namespaces)
	e.chosen = chosen{changes: now, limiter: is, considered: gathered.considered(e.chosen.considered), unselectable: unselectable}
	return nil
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
