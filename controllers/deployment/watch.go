package deployment

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/weir-dev/weir/api/v1alpha1"
)

// atOnce is how many Limiters are reconciled at once: one whose Redis is dead must not hold up the others.
const atOnce = 4

// AddToScheme adds the kinds that Limiters are made of.
func AddToScheme(scheme *runtime.Scheme) error {
	for _, add := range []func(*runtime.Scheme) error{
		v1alpha1.AddToScheme, corev1.AddToScheme, appsv1.AddToScheme, policyv1.AddToScheme, networkingv1.AddToScheme, autoscalingv2.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return fmt.Errorf("register the kinds that Limiters are made of: %w", err)
		}
	}
	return nil
}

// owned are the kinds that are watched, so that what others change is put back. ConfigMaps are not: to watch those that
// are ours needs the right to read all.
func (o Options) owned() []client.Object {
	kinds := []client.Object{
		&appsv1.Deployment{}, &corev1.Service{}, &corev1.ServiceAccount{}, &policyv1.PodDisruptionBudget{},
		&networkingv1.NetworkPolicy{}, &autoscalingv2.HorizontalPodAutoscaler{},
	}
	if o.PodMonitors {
		kinds = append(kinds, noPodMonitor())
	}
	return kinds
}

// Cached is what a manager's cache should hold of the kinds that are watched: those that are the operator's, not all of
// the cluster's.
func (o Options) Cached() map[client.Object]cache.ByObject {
	ours := cache.ByObject{Label: labels.SelectorFromSet(labels.Set{managedByLabel: managedBy})}
	held := map[client.Object]cache.ByObject{}
	for _, kind := range o.owned() {
		held[kind] = ours
	}
	return held
}

// edited passes a Limiter whose spec has changed, or that API servers ask no more: finalizers are in no generation.
func edited() predicate.Predicate {
	return predicate.Or[client.Object](predicate.GenerationChangedPredicate{}, predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return controllerutil.ContainsFinalizer(e.ObjectOld, ThrottleFinalizer) && !controllerutil.ContainsFinalizer(e.ObjectNew, ThrottleFinalizer)
	}})
}

// SetupWithManager runs r on mgr, whenever a Limiter changes its spec or is asked by API servers no more, and whatever
// becomes of what it owns.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	build := ctrl.NewControllerManagedBy(mgr).
		Named("deployment").
		For(&v1alpha1.Limiter{}, builder.WithPredicates(edited())).
		WithOptions(controller.Options{MaxConcurrentReconciles: atOnce})
	for _, kind := range r.Options.owned() {
		build = build.Owns(kind)
	}
	return build.Complete(r)
}
