package certificate

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"net"
	"slices"
	"time"
)

// Pair is a certificate with its key. The zero Pair means that there is no certificate.
type Pair struct {
	Certificate *x509.Certificate
	Key         *ecdsa.PrivateKey // nil for a trusted CA that cannot sign
}

func (p Pair) exists() bool { return p.Certificate != nil }

func (p Pair) isValid(now time.Time) bool {
	return p.exists() && !now.Before(p.Certificate.NotBefore) && now.Before(p.Certificate.NotAfter)
}

// renewalTime returns when the pair must be replaced.
func (p Pair) renewalTime() time.Time {
	return renewalTime(p.Certificate.NotBefore.Add(clockSkew), p.Certificate.NotAfter)
}

// hasNames reports whether the certificate is valid for exactly these names.
func (p Pair) hasNames(hasNames []string) bool {
	dns, ips := splitNames(hasNames)
	return slices.Equal(p.Certificate.DNSNames, dns) && slices.EqualFunc(p.Certificate.IPAddresses, ips, net.IP.Equal)
}

// hasSigned reports whether the CA p signed the serving certificate.
func (p Pair) hasSigned(serving Pair) bool {
	return serving.Certificate.CheckSignatureFrom(p.Certificate) == nil
}

// newCA issues a self-signed CA that can sign only serving certificates.
func newCA(lifetime time.Duration, now time.Time) (Pair, error) {
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "weir webhook CA of " + now.UTC().Format(time.RFC3339)},
		NotBefore:             now.Add(-clockSkew),
		NotAfter:              now.Add(lifetime),
		KeyUsage:              x509.KeyUsageCertSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true,
	}
	pair, err := issue(template, Pair{})
	if err != nil {
		return Pair{}, fmt.Errorf("issue a CA: %w", err)
	}
	return pair, nil
}

// newServing issues a serving pair for the names. It expires no later than its CA.
func newServing(names []string, lifetime time.Duration, ca Pair, now time.Time) (Pair, error) {
	ends := now.Add(lifetime)
	if ca.Certificate.NotAfter.Before(ends) {
		ends = ca.Certificate.NotAfter
	}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "weir webhook"}, // a common name is limited to 64 characters
		NotBefore:             now.Add(-clockSkew),
		NotAfter:              ends,
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
	}
	template.DNSNames, template.IPAddresses = splitNames(names)
	pair, err := issue(template, ca)
	if err != nil {
		return Pair{}, fmt.Errorf("issue a certificate for %q: %w", names, err)
	}
	return pair, nil
}

// issue generates a key and a certificate, signed by the given pair. With the zero Pair the certificate is self-signed.
func issue(template *x509.Certificate, issuer Pair) (Pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, err
	}
	if !issuer.exists() {
		issuer = Pair{template, key}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, issuer.Certificate, &key.PublicKey, issuer.Key)
	if err != nil {
		return Pair{}, err
	}
	certificate, err := x509.ParseCertificate(der)
	return Pair{certificate, key}, err
}

// splitNames separates DNS names and IP addresses.
func splitNames(names []string) (dns []string, ips []net.IP) {
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			ips = append(ips, ip)
		} else {
			dns = append(dns, name)
		}
	}
	return dns, ips
}
