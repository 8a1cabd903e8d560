package registration

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	v1alpha1ac "github.com/weir-dev/weir/api/v1alpha1/applyconfiguration/api/v1alpha1"
	"github.com/weir-dev/weir/controllers/conditions"
	"github.com/weir-dev/weir/controllers/limiterevents"
)

// report writes the condition of each Limiter if it has changed. A webhook that could not be written does not exist.
func (r *Reconciler) report(ctx context.Context, states []limiterState, written error, now time.Time) error {
	var failed error
	for i := range states {
		s := &states[i]
		if written != nil && s.reason == "" {
			continue // the condition means that API servers may still call the Limiter
		}
		if written != nil && s.wantsWebhook() {
			s.message += "; the latest changes could not be written: " + written.Error()
			if !s.hasWebhook {
				s.reason, s.message = v1alpha1.ReasonNotWritten, written.Error()
			}
		}
		failed = errors.Join(failed, r.reportCondition(ctx, s, now))
	}
	return failed
}

func (r *Reconciler) reportCondition(ctx context.Context, s *limiterState, now time.Time) error {
	limiter := s.limiter
	if !limiter.DeletionTimestamp.IsZero() {
		return nil
	}
	before := registered(limiter)
	after := s.condition(before, now)
	if before == nil && after == nil || before != nil && after != nil && *before == *after {
		return nil
	}
	status := v1alpha1ac.LimiterStatus()
	if after != nil {
		status.WithConditions(conditions.Apply([]metav1.Condition{*after})...)
	}
	// The UID prevents a write to another Limiter that was created with the same name.
	apply := v1alpha1ac.Limiter(limiter.Name, limiter.Namespace).WithUID(limiter.UID).WithStatus(status)
	if err := r.Client.Status().Apply(ctx, apply, fieldOwner, client.ForceOwnership); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write condition %s of Limiter %s/%s: %w", v1alpha1.ConditionThrottleRegistered, limiter.Namespace, limiter.Name, err)
	}
	if after != nil && (before == nil || before.Reason != after.Reason) {
		kind := corev1.EventTypeWarning
		if s.wantsWebhook() || before == nil && after.Reason != v1alpha1.ReasonNotOperatorNamespace { // the first condition is not a failure
			kind = corev1.EventTypeNormal
		}
		limiterevents.Record(r.Events, limiter, kind, after.Reason, "Register", after.Message)
	}
	return nil
}

// condition returns the condition of the Limiter. It returns nil for a Limiter that does not throttle.
func (s *limiterState) condition(before *metav1.Condition, now time.Time) *metav1.Condition {
	if s.reason == "" {
		return nil
	}
	c := metav1.Condition{Type: v1alpha1.ConditionThrottleRegistered, Status: metav1.ConditionFalse, Reason: s.reason, Message: s.message}
	if s.wantsWebhook() {
		c.Status = metav1.ConditionTrue
	}
	var known []metav1.Condition
	if before != nil {
		known = []metav1.Condition{*before}
	}
	return &conditions.Merge(known, []metav1.Condition{c}, s.limiter.Generation, now)[0]
}
