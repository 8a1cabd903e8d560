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

// withdraw takes out the webhooks that are not wanted, by itself: what cannot be registered holds no other one. The last takes
// the configuration with it.
func (r *Reconciler) withdraw(ctx context.Context, f inputs, wanted *admissionv1.ValidatingWebhookConfiguration) error {
	is := f.configuration
	if is == nil {
		return nil
	}
	if len(wanted.Webhooks) == 0 {
		// Whatever it holds by now.
		if err := r.Client.Delete(ctx, is, client.Preconditions{UID: new(is.UID)}); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete ValidatingWebhookConfiguration %s: %w", is.Name, err)
		}
		return nil
	}
	before := len(is.Webhooks)
	is.Webhooks = slices.DeleteFunc(is.Webhooks, func(w admissionv1.ValidatingWebhook) bool { return !containsWebhook(wanted, w.Name) })
	if len(is.Webhooks) == before {
		return nil
	}
	if err := r.Client.Update(ctx, is, fieldOwner); err != nil {
		return fmt.Errorf("take %d webhooks out of ValidatingWebhookConfiguration %s: %w", before-len(is.Webhooks), is.Name, err)
	}
	return nil
}

func containsWebhook(configuration *admissionv1.ValidatingWebhookConfiguration, name string) bool {
	return slices.ContainsFunc(configuration.Webhooks, func(w admissionv1.ValidatingWebhook) bool { return w.Name == name })
}

// register puts in what is wanted, and puts back what others have changed of it. Nothing is written where all is so. A
// configuration that is there is written as a whole: server-side apply would leave what others have added within a
// webhook, a condition by which no write is asked about.
func (r *Reconciler) register(ctx context.Context, f inputs, wanted *admissionv1.ValidatingWebhookConfiguration) error {
	is := f.configuration
	switch {
	case len(wanted.Webhooks) == 0 || is != nil && matches(is, wanted):
		return nil
	case is == nil:
		return r.create(ctx, wanted)
	}
	is.Webhooks = wanted.Webhooks
	if is.Labels == nil {
		is.Labels = map[string]string{}
	}
	maps.Copy(is.Labels, wanted.Labels)
	if err := r.Client.Update(ctx, is, fieldOwner); err != nil {
		return fmt.Errorf("update ValidatingWebhookConfiguration %s: %w", is.Name, err)
	}
	return nil
}

// create applies the configuration, which a role can allow for one name: the right to create by POST is one to all names.
func (r *Reconciler) create(ctx context.Context, wanted *admissionv1.ValidatingWebhookConfiguration) error {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(wanted)
	if err != nil {
		return fmt.Errorf("turn ValidatingWebhookConfiguration %s into JSON: %w", wanted.Name, err)
	}
	apply := client.ApplyConfigurationFromUnstructured(&unstructured.Unstructured{Object: fields})
	if err := r.Client.Apply(ctx, apply, fieldOwner, client.ForceOwnership); err != nil {
		return fmt.Errorf("apply ValidatingWebhookConfiguration %s: %w", wanted.Name, err)
	}
	return nil
}

// same says whether all is as wanted, in whatever order webhooks stand.
func matches(is, wanted *admissionv1.ValidatingWebhookConfiguration) bool {
	for name, value := range wanted.Labels { // others may have more
		if is.Labels[name] != value {
			return false
		}
	}
	return equality.Semantic.DeepEqual(slices.SortedFunc(slices.Values(is.Webhooks), byName), wanted.Webhooks)
}
