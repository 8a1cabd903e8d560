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

// Finalizer keeps a deleted Limiter until its data is removed from Redis, or until the time for that is over.
const Finalizer = "weir.dev/redis"

const (
	// redisCleanupTimeout is how long a deleted Limiter waits for Redis. What then remains in Redis is small, and heartbeats expire.
	redisCleanupTimeout = 30 * time.Second
	// redisCleanupAttemptTimeout bounds one attempt.
	redisCleanupAttemptTimeout = 3 * time.Second
	// redisCleanupRetry is the time from a failed attempt to the next one.
	redisCleanupRetry = 2 * time.Second
)

// finalize removes the data of a deleted Limiter from Redis, then the finalizer. Garbage collection deletes the objects that it owns.
func (r *Reconciler) finalize(ctx context.Context, limiter *v1alpha1.Limiter) (ctrl.Result, error) {
	if !controllerutil.ContainsFinalizer(limiter, Finalizer) {
		return ctrl.Result{}, nil
	}
	attempt, cancel := context.WithTimeout(ctx, redisCleanupAttemptTimeout)
	defer cancel()
	if err := r.Cleaner.Forget(attempt, limiter); err != nil {
		if r.Clock().Sub(limiter.DeletionTimestamp.Time) < redisCleanupTimeout {
			log.FromContext(ctx).Info("Cannot remove the data of the deleted Limiter from Redis; retrying", "error", err.Error())
			return ctrl.Result{RequeueAfter: redisCleanupRetry}, nil
		}
		note := fmt.Sprintf("The rules of this Limiter remain in Redis, because removing them failed for %v: %v. Delete its keys in Redis", redisCleanupTimeout, err)
		limiterevents.Record(r.Events, limiter, corev1.EventTypeWarning, "NotForgotten", "Forget", note)
	}
	r.applied.forgetLimiter(limiter.UID)
	r.hashKeys.Delete(limiter.UID)
	before := limiter.DeepCopy()
	controllerutil.RemoveFinalizer(limiter, Finalizer)
	return ctrl.Result{}, client.IgnoreNotFound(finalizers.Patch(ctx, r.Client, before, limiter, fieldOwner))
}

// addFinalizer makes sure that finalize runs when the Limiter is deleted.
func (r *Reconciler) addFinalizer(ctx context.Context, limiter *v1alpha1.Limiter) error {
	before := limiter.DeepCopy()
	if !controllerutil.AddFinalizer(limiter, Finalizer) {
		return nil
	}
	return finalizers.Patch(ctx, r.Client, before, limiter, fieldOwner)
}
