package deployment

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/controllers/finalizers"
	"github.com/weir-dev/weir/controllers/limiterevents"
)

// Finalizer keeps a Limiter that is deleted until it is forgotten in Redis, or Redis has had its time.
const Finalizer = "weir.dev/redis"

const (
	// leaveTime is how long a deleted Limiter waits for Redis: what stays there is small, and heartbeats go by themselves.
	leaveTime = 30 * time.Second
	// forgetTimeout bounds one attempt.
	forgetTimeout = 3 * time.Second
	// forgetRetry is how long after a failed attempt the next one comes.
	forgetRetry = 2 * time.Second
)

// leave has Redis forget a Limiter that is being deleted, and lets it go. What it owns is collected then.
func (r *Reconciler) leave(ctx context.Context, limiter *v1alpha1.Limiter) (ctrl.Result, error) {
	if !controllerutil.ContainsFinalizer(limiter, Finalizer) {
		return ctrl.Result{}, nil
	}
	attempt, cancel := context.WithTimeout(ctx, forgetTimeout)
	defer cancel()
	if err := r.Cleaner.Forget(attempt, limiter); err != nil {
		if r.Clock().Sub(limiter.DeletionTimestamp.Time) < leaveTime {
			log.FromContext(ctx).Info("Redis does not forget the Limiter yet", "error", err.Error())
			return ctrl.Result{RequeueAfter: forgetRetry}, nil
		}
		note := fmt.Sprintf("rules of this Limiter stay in Redis, which failed for %v: %v", leaveTime, err)
		limiterevents.Record(r.Events, limiter, corev1.EventTypeWarning, "NotForgotten", "Forget", note)
	}
	r.memory.dropAll(limiter.UID)
	before := limiter.DeepCopy()
	controllerutil.RemoveFinalizer(limiter, Finalizer)
	return ctrl.Result{}, client.IgnoreNotFound(finalizers.Patch(ctx, r.Client, before, limiter, fieldOwner))
}

// addFinalizer has the Limiter wait for leave when it is deleted.
func (r *Reconciler) addFinalizer(ctx context.Context, limiter *v1alpha1.Limiter) error {
	before := limiter.DeepCopy()
	if !controllerutil.AddFinalizer(limiter, Finalizer) {
		return nil
	}
	return finalizers.Patch(ctx, r.Client, before, limiter, fieldOwner)
}
