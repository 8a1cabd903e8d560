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

// fieldOwner owns the fields that the rotation writes.
const fieldOwner = client.FieldOwner("weir-webhook-certificates")

// Config holds the settings and dependencies of a Rotator.
type Config struct {
	Rotation

	// Secret is the Secret with the certificates.
	Secret types.NamespacedName
	// Configurations are the ValidatingWebhookConfigurations to which the Rotator writes the CA bundle. It does not wait for a
	// configuration that does not exist.
	Configurations []string
	// ExternalConfigurations get the CA bundle from another controller. The Rotator waits until they contain it.
	ExternalConfigurations []string
	// Client writes the Secret and the CA bundles.
	Client client.Client
	// Uncached reads the Secret and the configurations. With a stale cache the Rotator could issue certificates twice.
	Uncached client.Reader
	// Serving is the certificate that this process serves. The Rotator restores a lost Secret from it. It is nil if other processes
	// serve: then the Rotator restores the Secret from its last content.
	Serving *Serving
	// Interval is the time between two checks.
	Interval time.Duration
	// Clock returns the current time.
	Clock func() time.Time
}

// Rotator renews the certificates in the Secret and publishes the CA bundle. Only one replica at a time may run it.
type Rotator struct {
	Config
	lastServing Pair // last serving pair in the Secret
}

// NewRotator returns a Rotator. It returns an error if the lifetimes leave no time for a rotation.
func NewRotator(config Config) (*Rotator, error) {
	if err := config.validate(); err != nil {
		return nil, fmt.Errorf("rotate webhook certificates: %w", err)
	}
	return &Rotator{Config: config}, nil
}

// Reconcile brings the Secret and the webhook configurations to the state that is due.
func (r *Rotator) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	configurations, err := r.configurations(ctx, r.Configurations)
	if err != nil {
		return ctrl.Result{}, err
	}
	external, err := r.configurations(ctx, r.ExternalConfigurations)
	if err != nil {
		return ctrl.Result{}, err
	}
	stored, err := r.read(ctx)
	if err != nil {
		return ctrl.Result{}, err
	}
	state, err := r.nextState(ctx, stored, append(bundlesOf(configurations), bundlesOf(external)...))
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

// read returns the Secret. If the Secret does not exist, the result has no resource version.
func (r *Rotator) read(ctx context.Context) (*corev1.Secret, error) {
	var secret corev1.Secret
	if err := r.Uncached.Get(ctx, r.Secret, &secret); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("read Secret %s: %w", r.Secret, err)
	}
	return &secret, nil
}

// nextState returns the due state. It recovers as much as possible if the Secret is missing or invalid.
func (r *Rotator) nextState(ctx context.Context, stored *corev1.Secret, published Bundles) (State, error) {
	now := r.Clock()
	state, err := decode(stored.Data)
	if err != nil {
		if stored.ResourceVersion != "" {
			log.FromContext(ctx).Error(err, "Cannot read the webhook certificates in the Secret; issuing new ones", "secret", r.Secret)
		}
		state = r.Recover(r.servedPair(), published, now)
	}
	return r.Advance(state, published, now)
}

// servedPair returns the serving pair that is in use, as far as this process knows.
func (r *Rotator) servedPair() Pair {
	if r.Serving == nil {
		return r.lastServing
	}
	return r.Serving.current()
}

// write stores changed data. It fails with a conflict if the Secret has changed since it was read.
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
	log.FromContext(ctx).Info("Stored the webhook certificates", "secret", r.Secret,
		"cas", len(state.CAs), "until", state.Serving.Certificate.NotAfter)
	return nil
}

// containsAll reports whether stored contains all entries of want. Other entries are ignored.
func containsAll(stored, want map[string][]byte) bool {
	for key, value := range want {
		if !bytes.Equal(stored[key], value) {
			return false
		}
	}
	return true
}

// publish writes the CA bundle to every webhook, and changes nothing else in the configurations.
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
		// With the UID, the request cannot re-create a configuration that has been deleted meanwhile.
		apply = apply.WithUID(configuration.UID)
		if err := r.Client.Apply(ctx, apply, fieldOwner, client.ForceOwnership); err != nil {
			return fmt.Errorf("write the CA bundle to ValidatingWebhookConfiguration %s: %w", configuration.Name, err)
		}
	}
	return nil
}
