package registration

import (
	"context"
	"fmt"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/weir-dev/weir/api/v1alpha1"
)

const (
	firstRetry = 50 * time.Millisecond
	lastRetry  = 10 * time.Second
)

// AddToScheme adds the kinds that the controller reads and writes.
func AddToScheme(scheme *runtime.Scheme) error {
	for _, add := range []func(*runtime.Scheme) error{
		v1alpha1.AddToScheme, corev1.AddToScheme, appsv1.AddToScheme, admissionv1.AddToScheme, rbacv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return fmt.Errorf("add the kinds of the registration controller to the scheme: %w", err)
		}
	}
	return nil
}

// Cached returns the cache options for webhook configurations: the cache of a manager should hold this one only.
func Cached() map[client.Object]cache.ByObject {
	return map[client.Object]cache.ByObject{
		&admissionv1.ValidatingWebhookConfiguration{}: {Field: fields.OneTermEqualSelector("metadata.name", ConfigurationName)},
	}
}

// SetupWithManager runs the controller on mgr. It reconciles when a Limiter or its condition, a policy that limits writes, the labels of a namespace,
// the readiness of pods or the configuration changes. All events share one key, because there is one configuration. There is no reconciliation at the start
// without a Limiter: a cluster without Limiters needs no webhook.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	key := reconcile.Request{NamespacedName: types.NamespacedName{Name: ConfigurationName}}
	all := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request { return []reconcile.Request{key} })
	changed := builder.WithPredicates(predicate.Or[client.Object](predicate.GenerationChangedPredicate{}, conditionChanged()))
	retries := workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, lastRetry)
	return ctrl.NewControllerManagedBy(mgr).
		Named("registration").
		Watches(&v1alpha1.Limiter{}, all, changed). // setting the deletion timestamp also changes the generation
		Watches(&v1alpha1.RateLimitPolicy{}, all, builder.WithPredicates(writesChanged())).
		Watches(&v1alpha1.ClusterRateLimitPolicy{}, all, builder.WithPredicates(writesChanged())).
		Watches(&corev1.Namespace{}, all, builder.OnlyMetadata, builder.WithPredicates(
			predicate.Or[client.Object](predicate.LabelChangedPredicate{}, deletionStarts()))).
		Watches(&appsv1.Deployment{}, all, builder.WithPredicates(r.inOperatorNamespace())).
		Watches(&admissionv1.ValidatingWebhookConfiguration{}, all, builder.WithPredicates(r.isThrottleConfiguration())).
		WithOptions(controller.Options{MaxConcurrentReconciles: 1, RateLimiter: retries}).
		Complete(r)
}

// conditionChanged passes changes of the condition that the controller writes. A reconciliation compares the condition with the cache, which can lack the last
// write: then a state that has returned meanwhile seems to be written already. The event of that write corrects it.
func conditionChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := registered(e.ObjectOld), registered(e.ObjectNew)
		return (before == nil) != (after == nil) || before != nil && *before != *after
	}}
}

// registered returns the condition of a Limiter; nil if it has no such condition.
func registered(limiter client.Object) *metav1.Condition {
	l := limiter.(*v1alpha1.Limiter) //nolint:forcetypeassert // the watch is about Limiters
	return meta.FindStatusCondition(l.Status.Conditions, v1alpha1.ConditionThrottleRegistered)
}

// writesChanged passes the events of policies that limit writes, or did so before. Most policies limit requests: an edit of one changes no webhook.
func writesChanged() predicate.Predicate {
	edited := predicate.Or[client.Object](predicate.GenerationChangedPredicate{}, predicate.LabelChangedPredicate{})
	return predicate.Funcs{
		CreateFunc:  func(e event.CreateEvent) bool { return limitsWrites(e.Object) },
		DeleteFunc:  func(e event.DeleteEvent) bool { return limitsWrites(e.Object) },
		GenericFunc: func(e event.GenericEvent) bool { return limitsWrites(e.Object) },
		UpdateFunc: func(e event.UpdateEvent) bool {
			isOther := e.ObjectOld.GetUID() != e.ObjectNew.GetUID() // it was deleted and created again while the watch was interrupted
			return (isOther || edited.Update(e)) && (limitsWrites(e.ObjectOld) || limitsWrites(e.ObjectNew))
		},
	}
}

// deletionStarts passes the update that sets the deletion timestamp.
func deletionStarts() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return e.ObjectOld.GetDeletionTimestamp().IsZero() && !e.ObjectNew.GetDeletionTimestamp().IsZero()
	}}
}

func (r *Reconciler) inOperatorNamespace() predicate.Predicate {
	return predicate.NewPredicateFuncs(func(o client.Object) bool { return o.GetNamespace() == r.Namespace })
}

// isThrottleConfiguration filters caches that hold other configurations.
func (r *Reconciler) isThrottleConfiguration() predicate.Predicate {
	return predicate.NewPredicateFuncs(func(o client.Object) bool { return o.GetName() == ConfigurationName })
}
