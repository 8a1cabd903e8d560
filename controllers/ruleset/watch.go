package ruleset

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/weir-dev/weir/api/v1alpha1"
)

// limitersAtOnce is how many Limiters are reconciled at once: one whose Redis is dead must not hold up the others.
const limitersAtOnce = 8

// SetupWithManager runs r and its Reporter on mgr: whenever a Limiter comes, goes, or changes its spec or how many of its pods
// are ready, and for all Limiters whenever a policy comes, goes or changes its spec or labels, or a namespace its labels or
// annotations. Many edits at once are one compilation for each Limiter.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	edited := builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, predicate.LabelChangedPredicate{}, replaced()))
	counted := builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, readyReplicasChanged(), replaced()))
	described := builder.WithPredicates(predicate.Or(predicate.LabelChangedPredicate{}, predicate.AnnotationChangedPredicate{}))
	all := handler.EnqueueRequestsFromMapFunc(r.limiters)
	watch := ctrl.NewControllerManagedBy(mgr).
		Named("ruleset").
		For(&v1alpha1.Limiter{}, counted).
		WatchesMetadata(namespace(), all, described)
	for _, kind := range kinds() {
		watch = watch.Watches(kind, all, edited)
	}
	err := watch.
		WithOptions(controller.Options{MaxConcurrentReconciles: limitersAtOnce, RateLimiter: retries()}).
		Complete(r)
	if err != nil {
		return err
	}
	return r.Reporter.setup(mgr)
}

// setup runs r on mgr: at the start and whenever there is news of a Limiter, or a policy is not what it was.
func (r *Reporter) setup(mgr ctrl.Manager) error {
	report := reconcile.Request{NamespacedName: types.NamespacedName{Name: "policies"}}
	news := source.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		queue.Add(report)
		go func() {
			for {
				select {
				case <-ctx.Done():
					return
				case <-r.board.news:
					queue.Add(report)
				}
			}
		}()
		return nil
	})
	watch := ctrl.NewControllerManagedBy(mgr).Named("report").WatchesRawSource(news)
	for _, kind := range kinds() {
		watch = watch.Watches(kind, handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
			return []reconcile.Request{report}
		}), builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, replaced())))
	}
	return watch.
		WithOptions(controller.Options{MaxConcurrentReconciles: 1, RateLimiter: retries()}).
		Complete(r)
}

// replaced lets an update pass that is of another object of the same name: what was deleted and created anew while the watch
// was down comes as one, with the generation and the labels of the one before.
func replaced() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return e.ObjectOld != nil && e.ObjectNew != nil && e.ObjectOld.GetUID() != e.ObjectNew.GetUID()
	}}
}

// readyReplicasChanged lets an update pass after which more or fewer pods of the Limiter are ready.
func readyReplicasChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, is := e.ObjectOld.(*v1alpha1.Limiter)
		after, too := e.ObjectNew.(*v1alpha1.Limiter)
		return is && too && before.Status.ReadyReplicas != after.Status.ReadyReplicas
	}}
}

// retries are bounded, so that one status that cannot be written does not keep Redis from being repaired.
func retries() workqueue.TypedRateLimiter[reconcile.Request] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstLook, lastRetry)
}

// limiters are the requests for all Limiters, for something has changed.
func (r *Reconciler) limiters(ctx context.Context, _ client.Object) []reconcile.Request {
	r.changes.add()
	var list v1alpha1.LimiterList
	if err := r.Client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil // of a cache that has none yet: each Limiter comes with an event of its own
	}
	requests := make([]reconcile.Request, len(list.Items))
	for i := range list.Items {
		requests[i].NamespacedName = client.ObjectKeyFromObject(&list.Items[i])
	}
	return requests
}

func namespace() *metav1.PartialObjectMetadata {
	n := &metav1.PartialObjectMetadata{}
	n.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "Namespace"})
	return n
}
