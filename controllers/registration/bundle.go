package registration

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/controllers/deployment"
)

// caKey is the key of the CA bundle in the Secret. cert-manager uses the same key.
const caKey = "ca.crt"

// bundleFor returns the CA bundle with which API servers verify the Limiter. It must verify the certificate in the Secret now. If the Secret
// does not exist, it returns the bundle of the registered webhook: pods still serve the certificate that they have read.
func bundleFor(secret *corev1.Secret, webhook *admissionv1.ValidatingWebhook, limiter *v1alpha1.Limiter, now time.Time) ([]byte, error) {
	if secret == nil {
		if webhook != nil && len(webhook.ClientConfig.CABundle) > 0 {
			return webhook.ClientConfig.CABundle, nil
		}
		return nil, errors.New("it does not exist")
	}
	bundle := bytes.TrimSpace(secret.Data[caKey])
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(bundle) {
		return nil, fmt.Errorf("%s holds no certificate", caKey)
	}
	chain := parseCertificates(secret.Data[corev1.TLSCertKey])
	if len(chain) == 0 {
		return nil, fmt.Errorf("%s holds no certificate", corev1.TLSCertKey)
	}
	between := x509.NewCertPool()
	for _, c := range chain[1:] {
		between.AddCert(c)
	}
	name := deployment.Name(limiter.Name) + "." + limiter.Namespace + ".svc" // the name that API servers verify
	_, err := chain[0].Verify(x509.VerifyOptions{DNSName: name, Roots: roots, Intermediates: between, CurrentTime: now})
	if err != nil {
		return nil, fmt.Errorf("%s is not valid for %s: %w", corev1.TLSCertKey, name, err)
	}
	return slices.Concat(bundle, []byte("\n")), nil
}

func parseCertificates(text []byte) (all []*x509.Certificate) {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if c, err := x509.ParseCertificate(block.Bytes); err == nil {
			all = append(all, c)
		}
	}
	return all
}
