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
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/controllers/ruleset/selection"
)

// concurrentLimiters is the number of Limiters that are reconciled at the same time: one whose Redis does not answer must not
// delay the others.
const concurrentLimiters = 8

// SetupWithManager adds r and its Reporter to mgr. A Limiter is reconciled when it is created or deleted, and when its spec or
// its number of ready replicas changes. All Limiters are reconciled when a policy is created, deleted or changes its spec or
// labels, and when a namespace is created, deleted or changes its labels or annotations. Several changes in a short time are
// one compilation for each Limiter.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	policyChanged := predicate.Or[client.Object](predicate.GenerationChangedPredicate{}, predicate.LabelChangedPredicate{}, replaced())
	limiterChanged := builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, readyReplicasChanged(), replaced()))
	namespaceChanged := builder.WithPredicates(predicate.Or(predicate.LabelChangedPredicate{}, predicate.AnnotationChangedPredicate{}))
	allLimiters := enqueue(r.allLimiters)
	watch := ctrl.NewControllerManagedBy(mgr).
		Named("ruleset").
		For(&v1alpha1.Limiter{}, limiterChanged).
		WatchesMetadata(namespace(), allLimiters, namespaceChanged)
	policies := &selection.Listed{}
	r.Policies = policies
	for _, kind := range selection.Kinds() {
		watch = watch.Watches(kind, follow(policies, policyChanged, r.allLimiters))
	}
	if r.Gateways != nil {
		watch = watch.WatchesRawSource(whenever(r.Gateways.Changed(), r.allLimiters))
	}
	err := watch.
		WithOptions(controller.Options{MaxConcurrentReconciles: concurrentLimiters, RateLimiter: retries()}).
		Complete(r)
	if err != nil {
		return err
	}
	return r.setupReporter(mgr)
}

// setupReporter adds the Reporter to mgr. It runs at the start, when the state of a Limiter changes, when the spec of a policy changes,
// and when a target of a policy changes.
func (r *Reconciler) setupReporter(mgr ctrl.Manager) error {
	if err := mgr.Add(manager.RunnableFunc(r.Reporter.Events.Run)); err != nil { // with the leader, as the Reporter
		return err
	}
	requests := func(context.Context) []reconcile.Request {
		r.Reporter.Changed()
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: "policies"}}}
	}
	watch := ctrl.NewControllerManagedBy(mgr).Named("report").WatchesRawSource(whenever(r.Reporter.States.Changed(), requests))
	if r.Gateways != nil {
		watch = watch.WatchesRawSource(whenever(r.Gateways.Changed(), requests))
	}
	policies := &selection.Listed{} // a list of its own: the events of two watches do not arrive at the same time
	r.Reporter.Policies = policies
	for _, kind := range selection.Kinds() {
		watch = watch.Watches(kind, follow(policies, predicate.Or[client.Object](predicate.GenerationChangedPredicate{}, replaced()), requests))
	}
	return watch.
		WithOptions(controller.Options{MaxConcurrentReconciles: 1, RateLimiter: retries()}).
		Complete(r.Reporter)
}

// enqueue calls requests once for each event, and enqueues them. handler.EnqueueRequestsFromMapFunc calls its function twice for an update, with the
// object before and after it, so that one change would count as two that follow each other.
func enqueue(requests func(context.Context) []reconcile.Request) handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	add := func(ctx context.Context, q queue) {
		for _, request := range requests(ctx) {
			q.Add(request)
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, _ event.CreateEvent, q queue) { add(ctx, q) },
		UpdateFunc: func(ctx context.Context, _ event.UpdateEvent, q queue) { add(ctx, q) },
		DeleteFunc: func(ctx context.Context, _ event.DeleteEvent, q queue) { add(ctx, q) },
	}
}

// follow lists the policies as their events arrive, and enqueues requests when one is created or deleted, or changes as changed reports. The policies are
// listed before the requests are made, so that these find the change.
func follow(policies *selection.Listed, changed predicate.Predicate, requests func(context.Context) []reconcile.Request) handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	all := enqueue(requests)
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) {
			policies.Set(e.Object)
			all.Create(ctx, e, q)
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			if policies.Set(e.ObjectNew); changed.Update(e) {
				all.Update(ctx, e, q)
			}
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) {
			policies.Remove(e.Object)
			all.Delete(ctx, e, q)
		},
	}
}

// whenever enqueues requests at the start, and when changed receives a value.
func whenever(changed <-chan struct{}, requests func(context.Context) []reconcile.Request) source.Source {
	return source.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		enqueue := func() {
			for _, request := range requests(ctx) {
				queue.Add(request)
			}
		}
		enqueue()
		go func() {
			for {
				select {
				case <-ctx.Done():
					return
				case <-changed:
					enqueue()
				}
			}
		}()
		return nil
	})
}

// replaced accepts an update to another object of the same name. If an object is deleted and created again while the watch is
// interrupted, the cache receives one update. Both objects can have the same generation and labels.
func replaced() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return e.ObjectOld != nil && e.ObjectNew != nil && e.ObjectOld.GetUID() != e.ObjectNew.GetUID()
	}}
}

// readyReplicasChanged accepts an update that changes the number of ready replicas of a Limiter.
func readyReplicasChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(*v1alpha1.Limiter)
		after, alsoOK := e.ObjectNew.(*v1alpha1.Limiter)
		return ok && alsoOK && before.Status.ReadyReplicas != after.Status.ReadyReplicas
	}}
}

// retries bounds the wait after an error: while one status cannot be written, Redis must still be repaired in time.
func retries() workqueue.TypedRateLimiter[reconcile.Request] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](minPendingWait, maxUnavailableWait)
}

// allLimiters counts a change and returns a request for each Limiter.
func (r *Reconciler) allLimiters(ctx context.Context) []reconcile.Request {
	r.changes.Add(r.Clock())
	var list v1alpha1.LimiterList
	if err := r.Client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil // the cache has no Limiters yet: each of them arrives as an event of its own
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
