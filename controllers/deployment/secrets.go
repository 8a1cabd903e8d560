package deployment

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weir-dev/weir/api/v1alpha1"
)

// passwordKey is the one key that a Secret with credentials must have.
const passwordKey = "password"

// The keys of the Secret with what TLS needs.
const (
	authoritiesKey = "ca.crt"
	certificateKey = "tls.crt"
	privateKeyKey  = "tls.key"
)

// Keys are the names of what a Secret holds, sorted.
type Keys []string

// Has says whether the Secret holds something under key.
func (k Keys) Has(key string) bool { return slices.Contains(k, key) }

// Secrets are what is to be known of the Secrets that a Limiter names: never what they hold.
type Secrets struct {
	// TLS are the keys of the one for TLS.
	TLS Keys
}

// credentialsSecret is the name of the Secret with the credentials, or empty.
func credentialsSecret(limiter *v1alpha1.Limiter) string {
	if ref := limiter.Spec.Redis.CredentialsSecretRef; ref != nil {
		return ref.Name
	}
	return ""
}

// tlsSecret is the name of the Secret for TLS, or empty.
func tlsSecret(limiter *v1alpha1.Limiter) string {
	if tls := limiter.Spec.Redis.TLS; tls != nil && tls.SecretRef != nil {
		return tls.SecretRef.Name
	}
	return ""
}

// lookAtSecrets reads which keys the Secrets have that the Limiter names. It is an obstacle if that is not enough.
func (r *Reconciler) lookAtSecrets(ctx context.Context, limiter *v1alpha1.Limiter) (Secrets, error) {
	var found Secrets
	if name := credentialsSecret(limiter); name != "" {
		keys, err := r.keysOf(ctx, limiter.Namespace, name)
		if err != nil {
			return found, err
		}
		if !keys.Has(passwordKey) {
			return found, secretMissing("spec.redis.credentialsSecretRef: Secret %s has no key %s", name, passwordKey)
		}
	}
	name := tlsSecret(limiter)
	if name == "" {
		return found, nil
	}
	keys, err := r.keysOf(ctx, limiter.Namespace, name)
	if err != nil {
		return found, err
	}
	if keys.Has(certificateKey) != keys.Has(privateKeyKey) {
		return found, secretMissing("spec.redis.tls.secretRef: Secret %s has one of %s and %s, which go together", name, certificateKey, privateKeyKey)
	}
	found.TLS = keys
	return found, nil
}

func (r *Reconciler) keysOf(ctx context.Context, namespace, name string) (Keys, error) {
	var secret corev1.Secret
	err := r.Uncached.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, &secret)
	if apierrors.IsNotFound(err) {
		return nil, secretMissing("Secret %s is not in namespace %s", name, namespace)
	}
	if err != nil {
		return nil, fmt.Errorf("read Secret %s/%s: %w", namespace, name, err)
	}
	var keys Keys
	for key, value := range secret.Data {
		if len(value) > 0 {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys, nil
}
