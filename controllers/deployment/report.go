package deployment

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	v1alpha1ac "github.com/weir-dev/weir/api/v1alpha1/applyconfiguration/api/v1alpha1"
	"github.com/weir-dev/weir/controllers/conditions"
	"github.com/weir-dev/weir/controllers/limiterevents"
)

// report writes the outcome to the status if it has changed, and returns when to reconcile again.
func (r *Reconciler) report(ctx context.Context, limiter *v1alpha1.Limiter, found outcome) (ctrl.Result, error) {
	result := ctrl.Result{RequeueAfter: resyncInterval}
	if len(found.blocking) > 0 {
		result.RequeueAfter = r.blockedRetry
	} else if found.waitsForPods() {
		result.RequeueAfter = podsRetry
	}
	before, after := ownedStatus(limiter), newStatus(limiter, found, r.Clock())
	if equality.Semantic.DeepEqual(before, after) {
		return result, nil
	}
	err := r.Client.Status().Apply(ctx, statusApplyConfiguration(limiter, after), fieldOwner, client.ForceOwnership)
	switch {
	case apierrors.IsConflict(err): // the cache is older than the Limiter
		return ctrl.Result{RequeueAfter: statusRetry}, nil
	case apierrors.IsNotFound(err): // the Limiter has been deleted
		return ctrl.Result{}, nil
	case err != nil:
		return result, fmt.Errorf("write status of Limiter %s/%s: %w", limiter.Namespace, limiter.Name, err)
	}
	r.recordTransition(limiter, before, after)
	return result, nil
}

// recordTransition records an event when the reason of the Programmed condition changes.
func (r *Reconciler) recordTransition(limiter *v1alpha1.Limiter, before, after v1alpha1.LimiterStatus) {
	was := meta.FindStatusCondition(before.Conditions, v1alpha1.ConditionProgrammed)
	is := meta.FindStatusCondition(after.Conditions, v1alpha1.ConditionProgrammed)
	if was != nil && was.Reason == is.Reason {
		return
	}
	kind := corev1.EventTypeWarning
	if is.Reason == v1alpha1.ReasonDeployed || is.Reason == v1alpha1.ReasonPending {
		kind = corev1.EventTypeNormal
	}
	limiterevents.Record(r.Events, limiter, kind, is.Reason, "Deploy", is.Message)
}

// statusApplyConfiguration returns the status for server-side apply. The resource version makes it fail if the Limiter has changed.
func statusApplyConfiguration(limiter *v1alpha1.Limiter, s v1alpha1.LimiterStatus) *v1alpha1ac.LimiterApplyConfiguration {
	status := v1alpha1ac.LimiterStatus().
		WithObservedGeneration(s.ObservedGeneration).
		WithReplicas(s.Replicas).
		WithReadyReplicas(s.ReadyReplicas).
		WithSelector(s.Selector)
	status.WithConditions(conditions.Apply(s.Conditions)...)
	for _, c := range s.Certificates {
		status.WithCertificates(v1alpha1ac.LimiterCertificate().WithUse(c.Use).WithSecret(c.Secret).WithNotBefore(c.NotBefore).WithNotAfter(c.NotAfter))
	}
	return v1alpha1ac.Limiter(limiter.Name, limiter.Namespace).WithResourceVersion(limiter.ResourceVersion).WithStatus(status)
}
