package certificate

import (
	"bytes"
	"slices"
	"time"
)

// State is the complete state of the rotation.
type State struct {
	// CAs are the trusted CAs, the newest last.
	CAs []CA
	// Serving is the pair that replicas serve.
	Serving Pair
}

// CA is a certificate of a CA. It signs serving certificates.
type CA struct {
	Pair

	// PublishedSince is the time since when all webhook configurations contain the CA. It is zero if one of them does not.
	PublishedSince time.Time
	// NeededUntil is the time until when a certificate that the CA signed may be served.
	NeededUntil time.Time
}

// Bundle returns the CA bundle for the webhook configurations, as PEM.
func (s State) Bundle() []byte {
	var bundle []byte
	for _, a := range s.CAs {
		bundle = append(bundle, encodeCertificate(a.Certificate)...)
	}
	return bundle
}

// signer returns the index of the CA that signed the serving certificate, or notFound.
func (s State) signer() int {
	if !s.Serving.exists() {
		return notFound
	}
	return slices.IndexFunc(s.CAs, func(a CA) bool { return a.hasSigned(s.Serving) })
}

const notFound = -1

// clone returns a copy whose CAs can be changed.
func (s State) clone() State {
	s.CAs = slices.Clone(s.CAs)
	return s
}

// Bundles are the CA bundles that the webhook configurations contain now, one per webhook.
type Bundles [][]byte

// contain reports whether all bundles contain the CA. It is true if there is no webhook.
func (b Bundles) contain(a CA) bool {
	text := bytes.TrimSpace(encodeCertificate(a.Certificate))
	return !slices.ContainsFunc(b, func(bundle []byte) bool { return !bytes.Contains(bundle, text) })
}
