package ruleset

import (
	"context"

	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// SetupWithManager runs r on mgr: once at the start, even if there are no policies, and whenever a policy comes, goes
// or changes its spec. All of them share one key, so that many edits at once are one compilation.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	limiter := reconcile.Request{NamespacedName: r.Limiter}
	start := source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		queue.Add(limiter)
		return nil
	})
	toLimiter := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{limiter}
	})
	// Bounded, so that one status that cannot be written does not keep Redis from being repaired.
	retries := workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstLook, lastRetry)
	watch := ctrl.NewControllerManagedBy(mgr).Named("ruleset").WatchesRawSource(start)
	for _, kind := range kinds() {
		watch = watch.Watches(kind, toLimiter, builder.WithPredicates(predicate.GenerationChangedPredicate{}))
	}
	return watch.
		WithOptions(controller.Options{MaxConcurrentReconciles: 1, RateLimiter: retries}).
		Complete(r)
}
