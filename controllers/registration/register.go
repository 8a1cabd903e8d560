package registration

import (
	"context"
	"fmt"
	"maps"
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// withdraw removes the webhooks of Limiters that should not be registered. It is a write of its own, so that a webhook that cannot be registered
// does not prevent the removal of others. With the last webhook it deletes the configuration. A Limiter that keeps a webhook keeps all of
// them until register replaces them in one write: a namespace that moves between two is never without one.
func (r *Reconciler) withdraw(ctx context.Context, f inputs, wanted *admissionv1.ValidatingWebhookConfiguration) error {
	current := f.configuration
	if current == nil {
		return nil
	}
	if len(wanted.Webhooks) == 0 {
		// Deletes the configuration even if others have added webhooks to it.
		if err := r.Client.Delete(ctx, current, client.Preconditions{UID: new(current.UID)}); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete ValidatingWebhookConfiguration %s: %w", current.Name, err)
		}
		return nil
	}
	before := len(current.Webhooks)
	current.Webhooks = slices.DeleteFunc(current.Webhooks, func(w admissionv1.ValidatingWebhook) bool { return !hasLimiterOf(wanted, w.Name) })
	if len(current.Webhooks) == before {
		return nil
	}
	if err := r.Client.Update(ctx, current, fieldOwner); err != nil {
		return fmt.Errorf("remove %d webhooks from ValidatingWebhookConfiguration %s: %w", before-len(current.Webhooks), current.Name, err)
	}
	return nil
}

// hasLimiterOf reports whether the configuration has a webhook of the same Limiter.
func hasLimiterOf(configuration *admissionv1.ValidatingWebhookConfiguration, webhook string) bool {
	first := firstName(webhook)
	return slices.ContainsFunc(configuration.Webhooks, func(w admissionv1.ValidatingWebhook) bool { return firstName(w.Name) == first })
}

// register adds the wanted webhooks and reverts changes by others. It writes nothing if the configuration matches. It updates an existing
// configuration as a whole, because server-side apply would keep what others have added inside a webhook, for example a match
// condition that excludes every write.
func (r *Reconciler) register(ctx context.Context, f inputs, wanted *admissionv1.ValidatingWebhookConfiguration) error {
	current := f.configuration
	switch {
	case len(wanted.Webhooks) == 0 || current != nil && matches(current, wanted):
		return nil
	case current == nil:
		return r.create(ctx, wanted)
	}
	current.Webhooks = wanted.Webhooks
	if len(wanted.OwnerReferences) > 0 {
		current.OwnerReferences = wanted.OwnerReferences
	}
	if current.Labels == nil {
		current.Labels = map[string]string{}
	}
	maps.Copy(current.Labels, wanted.Labels)
	if err := r.Client.Update(ctx, current, fieldOwner); err != nil {
		return fmt.Errorf("update ValidatingWebhookConfiguration %s: %w", current.Name, err)
	}
	return nil
}

// create uses server-side apply: RBAC can restrict it to one name, but cannot restrict the create verb to a name.
func (r *Reconciler) create(ctx context.Context, wanted *admissionv1.ValidatingWebhookConfiguration) error {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(wanted)
	if err != nil {
		return fmt.Errorf("encode ValidatingWebhookConfiguration %s: %w", wanted.Name, err)
	}
	apply := client.ApplyConfigurationFromUnstructured(&unstructured.Unstructured{Object: fields})
	if err := r.Client.Apply(ctx, apply, fieldOwner, client.ForceOwnership); err != nil {
		return fmt.Errorf("apply ValidatingWebhookConfiguration %s: %w", wanted.Name, err)
	}
	return nil
}

// matches reports whether the configuration is as wanted. The order of webhooks does not matter.
func matches(current, wanted *admissionv1.ValidatingWebhookConfiguration) bool {
	if len(wanted.OwnerReferences) > 0 && !equality.Semantic.DeepEqual(current.OwnerReferences, wanted.OwnerReferences) {
		return false
	}
	for name, value := range wanted.Labels { // others may add labels
		if current.Labels[name] != value {
			return false
		}
	}
	return equality.Semantic.DeepEqual(slices.SortedFunc(slices.Values(current.Webhooks), byName), wanted.Webhooks)
}
