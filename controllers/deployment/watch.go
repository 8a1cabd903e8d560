package deployment

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/weir-dev/weir/api/v1alpha1"
)

// maxConcurrentReconciles is more than one because a Limiter whose Redis is unavailable must not delay the others.
const maxConcurrentReconciles = 4

// AddToScheme adds the kinds that this controller reads and writes.
func AddToScheme(scheme *runtime.Scheme) error {
	for _, add := range []func(*runtime.Scheme) error{
		v1alpha1.AddToScheme, corev1.AddToScheme, appsv1.AddToScheme, policyv1.AddToScheme, networkingv1.AddToScheme, autoscalingv2.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return fmt.Errorf("add the kinds of the deployment controller to the scheme: %w", err)
		}
	}
	return nil
}

// ownedKinds are the watched kinds: the controller reverts changes that others make to them. ConfigMaps are not watched, because that
// needs permission to read all of them.
func (o Options) ownedKinds() []client.Object {
	kinds := []client.Object{
		&appsv1.Deployment{}, &corev1.Service{}, &corev1.ServiceAccount{}, &policyv1.PodDisruptionBudget{},
		&networkingv1.NetworkPolicy{}, &autoscalingv2.HorizontalPodAutoscaler{},
	}
	if o.PodMonitors {
		kinds = append(kinds, emptyPodMonitor())
	}
	return kinds
}

// Cached returns the cache options for the watched kinds: the cache of a manager should hold the operator's objects only, and read only
// the namespaces in which Limiters can be. Policies are read in all namespaces.
func (o Options) Cached() map[client.Object]cache.ByObject {
	var namespaces map[string]cache.Config // nil: all
	for _, namespace := range o.WatchNamespaces {
		if namespaces == nil {
			namespaces = map[string]cache.Config{}
		}
		namespaces[namespace] = cache.Config{}
	}
	ours := cache.ByObject{Label: labels.SelectorFromSet(labels.Set{managedByLabel: managedBy}), Namespaces: namespaces}
	held := map[client.Object]cache.ByObject{}
	if namespaces != nil {
		held[&v1alpha1.Limiter{}] = cache.ByObject{Namespaces: namespaces}
	}
	for _, kind := range o.ownedKinds() {
		held[kind] = ours
	}
	return held
}

// relevantChange passes changes of the spec, and what does not change the generation: the removal of the condition of the registration,
// finalizers of older versions, and the status that this controller writes. A reconciliation compares that status with the cache, which can
// lack the last write: then a state that has returned meanwhile seems to be written already. The event of that write corrects it.
func relevantChange() predicate.Predicate {
	return predicate.Or[client.Object](predicate.GenerationChangedPredicate{}, predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld.(*v1alpha1.Limiter), e.ObjectNew.(*v1alpha1.Limiter) //nolint:forcetypeassert // the watch is about Limiters
		return !awaitsWithdrawal(after) && awaitsWithdrawal(before) || !slices.Equal(before.Finalizers, after.Finalizers) ||
			!equality.Semantic.DeepEqual(ownedStatus(before), ownedStatus(after))
	}})
}

// SetupWithManager runs the controller on mgr. It reconciles a Limiter when its spec changes, when its webhook is removed, and when an
// object that it owns changes.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	build := ctrl.NewControllerManagedBy(mgr).
		Named("deployment").
		For(&v1alpha1.Limiter{}, builder.WithPredicates(relevantChange())).
		WithOptions(controller.Options{MaxConcurrentReconciles: maxConcurrentReconciles})
	for _, kind := range r.Options.ownedKinds() {
		build = build.Owns(kind)
	}
	return build.Complete(r)
}
