package certificate

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// CacheFor returns the cache options, for cache.Options.ByObject, with which a manager caches only this Secret.
func CacheFor(secret types.NamespacedName) cache.ByObject {
	return cache.ByObject{
		Namespaces: map[string]cache.Config{secret.Namespace: {}},
		Field:      fields.OneTermEqualSelector("metadata.name", secret.Name),
	}
}

// onlySecret filters events in caches that hold more Secrets.
func onlySecret(secret types.NamespacedName) builder.Predicates {
	return builder.WithPredicates(predicate.NewPredicateFuncs(func(o client.Object) bool { return client.ObjectKeyFromObject(o) == secret }))
}

// SetupWithManager runs r on the elected replica: at the start, even if there is no Secret, when the Secret changes, and at intervals.
// It uses a cache of its own, because the cache of a manager would hold all Secrets of a namespace or of the cluster.
func (r *Rotator) SetupWithManager(mgr ctrl.Manager) error {
	held, err := cache.New(mgr.GetConfig(), cache.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
		ByObject: map[client.Object]cache.ByObject{&corev1.Secret{}: CacheFor(r.Secret)},
	})
	if err != nil {
		return fmt.Errorf("watch Secret %s: %w", r.Secret, err)
	}
	if err := mgr.Add(held); err != nil {
		return fmt.Errorf("watch Secret %s: %w", r.Secret, err)
	}
	key := reconcile.Request{NamespacedName: r.Secret}
	start := source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		queue.Add(key)
		return nil
	})
	// The backoff is bounded so that the Rotator recovers soon after an error is resolved.
	retries := workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](r.Interval/64, r.Interval)
	return ctrl.NewControllerManagedBy(mgr).
		Named(r.Secret.Name + "-rotation").
		WatchesRawSource(source.Kind(held, &corev1.Secret{}, &handler.TypedEnqueueRequestForObject[*corev1.Secret]{})).
		WatchesRawSource(start).
		WithOptions(controller.Options{MaxConcurrentReconciles: 1, RateLimiter: retries}).
		Complete(r)
}
