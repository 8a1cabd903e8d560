package registration

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/controllers/deployment"
	"github.com/weir-dev/weir/controllers/finalizers"
	"github.com/weir-dev/weir/controllers/limiterevents"
)

// Finalizer keeps a deleted Limiter, and so its pods, until its webhook is removed.
const Finalizer = deployment.ThrottleFinalizer

// withdrawTimeout is how long a deleted Limiter waits for the removal of its webhook.
const withdrawTimeout = 30 * time.Second

// addFinalizers adds the finalizer to Limiters that should be registered. A Limiter without the finalizer gets no new webhook.
func (r *Reconciler) addFinalizers(ctx context.Context, states []limiterState) error {
	var failed error
	for i := range states {
		s := &states[i]
		if !s.wantsWebhook() || controllerutil.ContainsFinalizer(s.limiter, Finalizer) {
			continue
		}
		before := s.limiter.DeepCopy()
		controllerutil.AddFinalizer(s.limiter, Finalizer)
		if err := r.patchFinalizers(ctx, before, s); err != nil {
			failed = errors.Join(failed, err)
			if !s.hasWebhook {
				s.reason, s.message = v1alpha1.ReasonNotWritten, err.Error()
			}
		}
	}
	return failed
}

// removeFinalizers removes the finalizer from Limiters that are no longer registered, unless withdrawing the webhooks failed just now.
func (r *Reconciler) removeFinalizers(ctx context.Context, states []limiterState, withdrawn error, now time.Time) error {
	var failed error
	for i := range states {
		s := &states[i]
		if s.wantsWebhook() || !controllerutil.ContainsFinalizer(s.limiter, Finalizer) {
			continue
		}
		if withdrawn != nil {
			deleted := s.limiter.DeletionTimestamp
			if deleted.IsZero() || now.Sub(deleted.Time) < withdrawTimeout {
				continue
			}
			note := fmt.Sprintf("API servers may still call this Limiter, because removing its webhook failed: %v. "+
				"Delete ValidatingWebhookConfiguration %s; the operator restores the webhooks of other Limiters", withdrawn, ConfigurationName)
			limiterevents.Record(r.Events, s.limiter, corev1.EventTypeWarning, "NotWithdrawn", "Register", note)
		}
		before := s.limiter.DeepCopy()
		controllerutil.RemoveFinalizer(s.limiter, Finalizer)
		failed = errors.Join(failed, client.IgnoreNotFound(r.patchFinalizers(ctx, before, s)))
	}
	return failed
}

// patchFinalizers writes the finalizers unless the Limiter has changed since it was read.
func (r *Reconciler) patchFinalizers(ctx context.Context, before *v1alpha1.Limiter, s *limiterState) error {
	err := finalizers.Patch(ctx, r.Client, before, s.limiter, fieldOwner)
	if err == nil {
		return nil
	}
	s.limiter = before
	if s.conflicted = apierrors.IsConflict(err); s.conflicted {
		return nil
	}
	return err
}
