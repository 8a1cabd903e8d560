package deployment

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weir-dev/weir/api/v1alpha1"
)

// passwordKey is the key that a Secret with credentials must have.
const passwordKey = "password"

// Keys of a TLS Secret.
const (
	caKey          = "ca.crt"
	certificateKey = "tls.crt"
	privateKeyKey  = "tls.key"
)

// Keys are the sorted keys of a Secret that have a value.
type Keys []string

// Has reports whether the Secret has a value under key.
func (k Keys) Has(key string) bool { return slices.Contains(k, key) }

// Secrets describes the Secrets that a Limiter references. It holds keys only, never values, except certificates.
type Secrets struct {
	// TLS are the keys of the TLS Secret.
	TLS Keys
	// Certificates are those in the Secrets, in the order of their uses.
	Certificates []v1alpha1.LimiterCertificate
}

// credentialsSecret returns the name of the Secret with the Redis credentials, or "".
func credentialsSecret(limiter *v1alpha1.Limiter) string {
	if ref := limiter.Spec.Redis.CredentialsSecretRef; ref != nil {
		return ref.Name
	}
	return ""
}

// tlsSecret returns the name of the TLS Secret, or "".
func tlsSecret(limiter *v1alpha1.Limiter) string {
	if tls := limiter.Spec.Redis.TLS; tls != nil && tls.SecretRef != nil {
		return tls.SecretRef.Name
	}
	return ""
}

// readSecretKeys reads the keys of the Secrets that the Limiter references. It returns a conditionError if a required key is missing.
func (r *Reconciler) readSecretKeys(ctx context.Context, limiter *v1alpha1.Limiter) (Secrets, error) {
	var found Secrets
	if name := credentialsSecret(limiter); name != "" {
		keys, _, err := r.readKeys(ctx, limiter.Namespace, name)
		if err != nil {
			return found, err
		}
		if !keys.Has(passwordKey) {
			return found, secretMissing("spec.redis.credentialsSecretRef: Secret %s has no key %s: add it", name, passwordKey)
		}
	}
	name := tlsSecret(limiter)
	if name == "" {
		return found, nil
	}
	keys, certificate, err := r.readKeys(ctx, limiter.Namespace, name)
	if err != nil {
		return found, err
	}
	found.addCertificate(v1alpha1.CertificateRedis, name, certificate)
	if keys.Has(certificateKey) != keys.Has(privateKeyKey) {
		return found, secretMissing("spec.redis.tls.secretRef: Secret %s has only one of the keys %s and %s: add the other one, or remove both",
			name, certificateKey, privateKeyKey)
	}
	found.TLS = keys
	return found, nil
}

// readKeys reads a Secret. It returns its keys, and the certificate in it, nil without a valid one.
func (r *Reconciler) readKeys(ctx context.Context, namespace, name string) (Keys, *x509.Certificate, error) {
	var secret corev1.Secret
	err := r.Uncached.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, &secret)
	if apierrors.IsNotFound(err) {
		return nil, nil, secretMissing("Secret %s does not exist in namespace %s", name, namespace)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read Secret %s/%s: %w", namespace, name, err)
	}
	var keys Keys
	for key, value := range secret.Data {
		if len(value) > 0 {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys, firstCertificate(secret.Data[certificateKey]), nil
}

// firstCertificate returns the first certificate in PEM, which a server or client presents as its own, or nil.
func firstCertificate(text []byte) *x509.Certificate {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if certificate, err := x509.ParseCertificate(block.Bytes); err == nil {
			return certificate
		}
	}
	return nil
}

// addCertificate adds a certificate, unless it is nil.
func (s *Secrets) addCertificate(use v1alpha1.CertificateUse, secret string, c *x509.Certificate) {
	if c != nil {
		s.Certificates = append(s.Certificates, v1alpha1.LimiterCertificate{
			Use: use, Secret: secret, NotBefore: metav1.NewTime(c.NotBefore), NotAfter: metav1.NewTime(c.NotAfter),
		})
	}
}
