package certificate

import (
	"bytes"
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

// Pair is a certificate and its key. The zero Pair is none.
type Pair struct {
	Certificate *x509.Certificate
	Key         *ecdsa.PrivateKey // nil: the certificate is trusted, and nothing can be signed
}

func (p Pair) exists() bool { return p.Certificate != nil }

func (p Pair) isValid(now time.Time) bool {
	return p.exists() && !now.Before(p.Certificate.NotBefore) && now.Before(p.Certificate.NotAfter)
}

// renewal is when the pair is replaced.
func (p Pair) renewalTime() time.Time {
	return renewalTime(p.Certificate.NotBefore.Add(clockSkew), p.Certificate.NotAfter)
}

// names says whether the certificate is for exactly these.
func (p Pair) hasNames(hasNames []string) bool {
	dns, ips := splitNames(hasNames)
	return slices.Equal(p.Certificate.DNSNames, dns) && slices.EqualFunc(p.Certificate.IPAddresses, ips, net.IP.Equal)
}

// signed says whether the authority p has signed what the other serves.
func (p Pair) hasSigned(serving Pair) bool {
	return bytes.Equal(p.Certificate.SubjectKeyId, serving.Certificate.AuthorityKeyId) && serving.Certificate.CheckSignatureFrom(p.Certificate) == nil
}

// newAuthority signs itself, and serving certificates only.
func newCA(lifetime time.Duration, now time.Time) (Pair, error) {
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "weir webhook authority of " + now.UTC().Format(time.RFC3339)},
		NotBefore:             now.Add(-clockSkew),
		NotAfter:              now.Add(lifetime),
		KeyUsage:              x509.KeyUsageCertSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true,
	}
	pair, err := issue(template, Pair{})
	if err != nil {
		return Pair{}, fmt.Errorf("issue an authority: %w", err)
	}
	return pair, nil
}

// newServing is a pair for names that does not outlive its authority.
func newServing(names []string, lifetime time.Duration, authority Pair, now time.Time) (Pair, error) {
	ends := now.Add(lifetime)
	if authority.Certificate.NotAfter.Before(ends) {
		ends = authority.Certificate.NotAfter
	}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "weir webhook"}, // names may be longer than a common name
		NotBefore:             now.Add(-clockSkew),
		NotAfter:              ends,
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
	}
	template.DNSNames, template.IPAddresses = splitNames(names)
	pair, err := issue(template, authority)
	if err != nil {
		return Pair{}, fmt.Errorf("issue a certificate for %q: %w", names, err)
	}
	return pair, nil
}

// issue makes a key and has by sign it; the zero Pair: itself.
func issue(template *x509.Certificate, by Pair) (Pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, err
	}
	if !by.exists() {
		by = Pair{template, key}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, by.Certificate, &key.PublicKey, by.Key)
	if err != nil {
		return Pair{}, err
	}
	certificate, err := x509.ParseCertificate(der)
	return Pair{certificate, key}, err
}

// split tells addresses from names.
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
