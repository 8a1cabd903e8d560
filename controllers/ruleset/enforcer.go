package ruleset

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log"

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
	// redis is what store was opened for, or was to be: store is nil until that succeeds.
	redis *v1alpha1.Redis
	store Store

	chosen   chosen
	compiled *compiled
	edits    edits
	known    known
	snapshot snapshot
	outage   outage
	// headcount is of the replicas that meet in store.
	headcount headcount
	look      look
	pace      pace
	told      toldLimiter
}

// chosen remembers what the Limiter chose from, and when.
type chosen struct {
	changes      uint64 // seen before
	limiter      mark
	at           time.Time
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

// choose makes e.compiled that of the policies that the Limiter selects, unless nothing has changed. What no watch has told of
// is seen within a patrol.
func (e *enforcer) choose(ctx context.Context, limiter *v1alpha1.Limiter) error {
	seen, anything := e.changes.since(e.chosen.changes)
	is, now := markOf(limiter), e.Clock()
	if !anything && e.chosen.limiter == is && now.Sub(e.chosen.at) < patrol {
		return nil
	}
	gathered, err := e.gather(ctx)
	if err != nil {
		return err
	}
	selected, unselectable := gathered.SelectedBy(&limiter.Spec)
	if unselectable == nil {
		e.compile(limiter, selected, gathered.namespaces)
	} else if err := e.hold(ctx, limiter, gathered); err != nil {
		return err
	}
	e.chosen = chosen{changes: seen, limiter: is, at: now, considered: gathered.considered(e.chosen.considered), unselectable: unselectable}
	return nil
}

// connect opens the Redis that the Limiter names, unless it is open.
func (e *enforcer) connect(ctx context.Context, limiter *v1alpha1.Limiter) error {
	if e.redis == nil || !equality.Semantic.DeepEqual(*e.redis, limiter.Spec.Redis) {
		e.leave(ctx)
		e.disconnect()
		e.redis = limiter.Spec.Redis.DeepCopy()
	}
	if e.store != nil {
		return nil
	}
	store, err := e.Open(limiter)
	if err != nil {
		return fmt.Errorf("spec.redis: %w", err)
	}
	e.store = store
	return nil
}

// leaveTimeout bounds an attempt: the Redis that a Limiter leaves may be away, and the next one is waited for.
const leaveTimeout = time.Second

// leave has the rules expire in the Redis that is open, if one is. It does so if it can: pods that still use it are rolled.
func (e *enforcer) leave(ctx context.Context) {
	if e.store == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, leaveTimeout)
	defer cancel()
	if err := e.store.Leave(ctx); err != nil {
		log.FromContext(ctx).Info("the rules stay in the Redis that the Limiter has left", "error", err.Error())
	}
}

// disconnect forgets the Redis, and all that was seen of it.
func (e *enforcer) disconnect() {
	if e.store != nil {
		_ = e.store.Close() // whose connections are given up anyway
	}
	e.redis, e.store, e.outage, e.headcount, e.look = nil, nil, outage{}, headcount{}, look{}
}
