package status

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/weir-dev/weir/api/v1alpha1"
)

const (
	// expirySoon is the remaining time from which on a certificate is a problem.
	expirySoon = 14 * 24 * time.Hour
	// expiryPart is that of a short-lived certificate: a quarter of its life. The operator and cert-manager renew when a third remains.
	expiryPart = 4
)

// addExpiry reports the webhook of a configuration whose CA expires first, if that is soon, and returns when it expires.
func (r *Report) addExpiry(c *admissionv1.ValidatingWebhookConfiguration, now time.Time) *time.Time {
	var first *x509.Certificate
	var webhook string
	for i := range c.Webhooks {
		ca := longestValid(c.Webhooks[i].ClientConfig.CABundle)
		if ca != nil && (first == nil || ca.NotAfter.Before(first.NotAfter)) {
			first, webhook = ca, c.Webhooks[i].Name
		}
	}
	if first == nil {
		return nil
	}
	expires := first.NotAfter.UTC()
	if message := expiryMessage(first.NotBefore, first.NotAfter, now, "API servers cannot call it"); message != "" {
		r.problem("ValidatingWebhookConfiguration "+c.Name, "", fmt.Sprintf("the CA of webhook %s %s", webhook, message),
			advice{"check that the operator runs, or that cert-manager does, which renews the CA", "WeirOperatorAbsent"})
	}
	return &expires
}

// longestValid returns the certificate of a bundle that expires last, nil if the bundle has no certificate. While a CA is replaced, the bundle
// also has the old one.
func longestValid(bundle []byte) (longest *x509.Certificate) {
	for block, rest := pem.Decode(bundle); block != nil; block, rest = pem.Decode(rest) {
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err == nil && (longest == nil || certificate.NotAfter.After(longest.NotAfter)) {
			longest = certificate
		}
	}
	return longest
}

// expiryMessage returns the problem of a certificate with its effect, "" if the certificate is valid for long enough.
func expiryMessage(begins, ends, now time.Time, effect string) string {
	date, left := ends.UTC().Format(time.RFC3339), ends.Sub(now)
	switch {
	case left <= 0:
		return "has expired on " + date + ": " + effect
	case left < min(expirySoon, ends.Sub(begins)/expiryPart):
		return "expires on " + date + ", and was not renewed in time: " + effect + " from then on"
	default:
		return ""
	}
}

// addCertificateProblem reports a certificate of a Limiter that has expired or expires soon.
func (r *Report) addCertificateProblem(object string, c *v1alpha1.LimiterCertificate, now time.Time) {
	effect, page := "clients that verify it cannot connect", "WeirRequestsFail"
	switch c.Use {
	case v1alpha1.CertificateRedis:
		effect, page = "Redis rejects the replicas", "redis-down"
	case v1alpha1.CertificateKubernetesThrottle:
		effect, page = "API servers cannot call the Limiter", "policy-not-enforced"
	case v1alpha1.CertificateHTTP, v1alpha1.CertificateGRPC:
	}
	if message := expiryMessage(c.NotBefore.Time, c.NotAfter.Time, now, effect); message != "" {
		r.problem(object, "", fmt.Sprintf("the %s certificate in Secret %s %s", c.Use, c.Secret, message),
			advice{"renew the certificate in the Secret, or check the program that renews it. Replicas load it without a restart", page})
	}
}
