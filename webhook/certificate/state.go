package certificate

import (
	"bytes"
	"slices"
	"time"
)

// State is all there is to know for the rotation.
type State struct {
	// Authorities that are trusted, the newest last.
	CAs []CA
	// Serving is what replicas answer with.
	Serving Pair
}

// Authority is trusted to sign what is served.
type CA struct {
	Pair

	// Carried is since when every webhook configuration has had it in its bundle; zero: not all have.
	PublishedSince time.Time
	// Needed is until when something that it signed may be served.
	NeededUntil time.Time
}

// Bundle is what the webhook configurations should carry.
func (s State) Bundle() []byte {
	var bundle []byte
	for _, a := range s.CAs {
		bundle = append(bundle, encodeCertificate(a.Certificate)...)
	}
	return bundle
}

// signer is the place of the authority of what is served, or none.
func (s State) signer() int {
	if !s.Serving.exists() {
		return notFound
	}
	return slices.IndexFunc(s.CAs, func(a CA) bool { return a.hasSigned(s.Serving) })
}

const notFound = -1

// clone lets a State be changed while another keeps what it was.
func (s State) clone() State {
	s.CAs = slices.Clone(s.CAs)
	return s
}

// Bundles are what the webhook configurations carry now, one for each webhook.
type Bundles [][]byte

// carry says whether all bundles have the authority. Where there is no webhook, nobody need trust anybody.
func (b Bundles) contain(a CA) bool {
	text := bytes.TrimSpace(encodeCertificate(a.Certificate))
	return !slices.ContainsFunc(b, func(bundle []byte) bool { return !bytes.Contains(bundle, text) })
}
