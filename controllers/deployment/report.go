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

// report writes what came of it into the status, if that is new, and says when to look again.
func (r *Reconciler) report(ctx context.Context, limiter *v1alpha1.Limiter, found outcome) (ctrl.Result, error) {
	result := ctrl.Result{RequeueAfter: resync}
	if len(found.obstacles) > 0 {
		result.RequeueAfter = obstacleRetry
	}
	before, after := ownState(limiter), stateOf(limiter, found, r.Clock())
	if equality.Semantic.DeepEqual(before, after) {
		return result, nil
	}
	err := r.Client.Status().Apply(ctx, applyState(limiter, after), fieldOwner, client.ForceOwnership)
	switch {
	case apierrors.IsConflict(err): // the cache has yet to show what the Limiter has become
		return ctrl.Result{RequeueAfter: statusRetry}, nil
	case apierrors.IsNotFound(err): // it is gone, and needs none
		return ctrl.Result{}, nil
	case err != nil:
		return result, fmt.Errorf("write status of Limiter %s/%s: %w", limiter.Namespace, limiter.Name, err)
	}
	r.tell(limiter, before, after)
	return result, nil
}

// tell makes an event of it when a Limiter is deployed that was not, or cannot be for another reason than before.
func (r *Reconciler) tell(limiter *v1alpha1.Limiter, before, after v1alpha1.LimiterStatus) {
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

// applyState is the state over that version of the Limiter, for the only owner of these fields.
func applyState(limiter *v1alpha1.Limiter, s v1alpha1.LimiterStatus) *v1alpha1ac.LimiterApplyConfiguration {
	status := v1alpha1ac.LimiterStatus().
		WithObservedGeneration(s.ObservedGeneration).
		WithReplicas(s.Replicas).
		WithReadyReplicas(s.ReadyReplicas).
		WithSelector(s.Selector)
	status.WithConditions(conditions.Apply(s.Conditions)...)
	return v1alpha1ac.Limiter(limiter.Name, limiter.Namespace).WithResourceVersion(limiter.ResourceVersion).WithStatus(status)
}
