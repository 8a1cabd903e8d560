package certificate

import (
	"bytes"
	"context"
	"fmt"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	admissionac "k8s.io/client-go/applyconfigurations/admissionregistration/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// owner is whose the fields are that the rotation writes.
const fieldOwner = client.FieldOwner("weir-webhook-certificates")

// Config is what a Rotator works on and with.
type Config struct {
	Rotation

	// Secret that holds the certificates.
	Secret types.NamespacedName
	// Configurations are the ValidatingWebhookConfigurations whose webhooks answer with them. One that does not exist is
	// not waited for.
	Configurations []string
	// Carriers are such ones to which somebody else brings the bundle of the Secret. They are waited for all the same.
	ExternalConfigurations []string
	// Client writes the Secret and the bundles.
	Client client.Client
	// Uncached reads both: what a cache does not know yet must not be issued anew.
	Uncached client.Reader
	// Serving is what this process answers with, from which a lost Secret is restored. Where other processes answer, nil:
	// then it is what the Secret held last.
	Serving *Serving
	// Every is how often all of it is checked.
	Interval time.Duration
	// Clock tells the time.
	Clock func() time.Time
}

// Rotator renews the certificates in the Secret and tells API servers whom to trust. One replica at a time runs it.
type Rotator struct {
	Config
	lastServing Pair // that the Secret held
}

// NewRotator returns a Rotator, and an error if its lifetimes leave no time for a rotation.
func NewRotator(config Config) (*Rotator, error) {
	if err := config.validate(); err != nil {
		return nil, fmt.Errorf("rotate webhook certificates: %w", err)
	}
	return &Rotator{Config: config}, nil
}

// Reconcile brings the Secret and the webhook configurations to where they should be by now.
func (r *Rotator) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	configurations, err := r.configurations(ctx, r.Configurations)
	if err != nil {
		return ctrl.Result{}, err
	}
	carriers, err := r.configurations(ctx, r.ExternalConfigurations)
	if err != nil {
		return ctrl.Result{}, err
	}
	stored, err := r.read(ctx)
	if err != nil {
		return ctrl.Result{}, err
	}
	state, err := r.nextState(ctx, stored, append(bundlesOf(configurations), bundlesOf(carriers)...))
	if err != nil {
		return ctrl.Result{}, err
	}
	if err := r.write(ctx, stored, state); err != nil {
		return ctrl.Result{}, err
	}
	r.lastServing = state.Serving
	if err := r.publish(ctx, configurations, state.Bundle()); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: r.Interval}, nil
}

func (r *Rotator) configurations(ctx context.Context, names []string) ([]admissionv1.ValidatingWebhookConfiguration, error) {
	var found []admissionv1.ValidatingWebhookConfiguration
	for _, name := range names {
		var configuration admissionv1.ValidatingWebhookConfiguration
		err := r.Uncached.Get(ctx, types.NamespacedName{Name: name}, &configuration)
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("read ValidatingWebhookConfiguration %s: %w", name, err)
		}
		if err == nil {
			found = append(found, configuration)
		}
	}
	return found, nil
}

func bundlesOf(configurations []admissionv1.ValidatingWebhookConfiguration) Bundles {
	var bundles Bundles
	for i := range configurations {
		for j := range configurations[i].Webhooks {
			bundles = append(bundles, configurations[i].Webhooks[j].ClientConfig.CABundle)
		}
	}
	return bundles
}

// read returns the Secret, one without a resource version if there is none.
func (r *Rotator) read(ctx context.Context) (*corev1.Secret, error) {
	var secret corev1.Secret
	if err := r.Uncached.Get(ctx, r.Secret, &secret); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("read Secret %s: %w", r.Secret, err)
	}
	return &secret, nil
}

// next is what the certificates should be by now. A Secret that is gone or damaged is restored as far as can be.
func (r *Rotator) nextState(ctx context.Context, stored *corev1.Secret, carried Bundles) (State, error) {
	now := r.Clock()
	state, err := decode(stored.Data)
	if err != nil {
		if stored.ResourceVersion != "" {
			log.FromContext(ctx).Error(err, "The webhook's certificates cannot be read and are made anew", "secret", r.Secret)
		}
		state = r.Recover(r.servedPair(), carried, now)
	}
	return r.Advance(state, carried, now)
}

// held is what is answered with, as far as this process knows.
func (r *Rotator) servedPair() Pair {
	if r.Serving == nil {
		return r.lastServing
	}
	return r.Serving.current()
}

// write stores what has changed, unless somebody else has written since it was read.
func (r *Rotator) write(ctx context.Context, stored *corev1.Secret, state State) error {
	data, err := state.encode()
	if err != nil {
		return err
	}
	if containsAll(stored.Data, data) {
		return nil
	}
	apply := corev1ac.Secret(r.Secret.Name, r.Secret.Namespace).
		WithLabels(map[string]string{
			"app.kubernetes.io/name":       "weir",
			"app.kubernetes.io/component":  "webhook",
			"app.kubernetes.io/managed-by": "weir-operator",
		}).
		WithData(data)
	if stored.ResourceVersion != "" {
		apply = apply.WithResourceVersion(stored.ResourceVersion)
	}
	if err := r.Client.Apply(ctx, apply, fieldOwner, client.ForceOwnership); err != nil {
		return fmt.Errorf("write Secret %s: %w", r.Secret, err)
	}
	log.FromContext(ctx).Info("Wrote the webhook's certificates", "secret", r.Secret,
		"authorities", len(state.CAs), "until", state.Serving.Certificate.NotAfter)
	return nil
}

// same says whether all of want is stored. What else there is belongs to others.
func containsAll(stored, want map[string][]byte) bool {
	for key, value := range want {
		if !bytes.Equal(stored[key], value) {
			return false
		}
	}
	return true
}

// publish makes every webhook carry the bundle, and touches nothing else of the configurations.
func (r *Rotator) publish(ctx context.Context, configurations []admissionv1.ValidatingWebhookConfiguration, bundle []byte) error {
	for i := range configurations {
		configuration := &configurations[i]
		apply := admissionac.ValidatingWebhookConfiguration(configuration.Name)
		changed := false
		for j := range configuration.Webhooks {
			webhook := &configuration.Webhooks[j]
			changed = changed || !bytes.Equal(webhook.ClientConfig.CABundle, bundle)
			apply = apply.WithWebhooks(admissionac.ValidatingWebhook().WithName(webhook.Name).
				WithClientConfig(admissionac.WebhookClientConfig().WithCABundle(bundle...)))
		}
		if !changed {
			continue
		}
		// The UID keeps a configuration that has been deleted meanwhile from coming back as a torso.
		apply = apply.WithUID(configuration.UID)
		if err := r.Client.Apply(ctx, apply, fieldOwner, client.ForceOwnership); err != nil {
			return fmt.Errorf("write the bundle of ValidatingWebhookConfiguration %s: %w", configuration.Name, err)
		}
	}
	return nil
}
