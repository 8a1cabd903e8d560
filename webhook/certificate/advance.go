package certificate

import (
	"slices"
	"time"
)

// A step is one change to a State.
type step struct {
	change change
	ca     int // index of the CA that the change concerns
}

type change int

const (
	noChange    change = iota
	removeCA           // remove a CA that is no longer needed
	addCA              // add a CA, which no API server trusts yet
	signServing        // issue a serving certificate, signed by a CA
)

// maxSteps bounds the steps of one call: removing some CAs, adding one and signing. The next call takes the remaining steps.
const maxSteps = 16

// Advance returns the state that is due at the given time, with the bundles that the webhook configurations contain now. It returns
// an equal state if nothing is due. An error means that key generation failed.
func (r Rotation) Advance(s State, published Bundles, now time.Time) (State, error) {
	s = s.recordPublished(published, now)
	for range maxSteps {
		due := r.dueStep(s, now)
		if due.change == noChange {
			break
		}
		next, err := r.apply(due, s, now)
		if err != nil {
			return State{}, err
		}
		s = next
	}
	return s, nil
}

// recordPublished records since when each CA is in all published bundles. A recorded time in the future is replaced by now.
func (s State) recordPublished(published Bundles, now time.Time) State {
	s = s.clone()
	for i := range s.CAs {
		switch a := &s.CAs[i]; {
		case !published.contain(*a):
			a.PublishedSince = time.Time{}
		case a.PublishedSince.IsZero() || a.PublishedSince.After(now):
			a.PublishedSince = now.Round(0).UTC() // the form in which it is read from the Secret
		}
	}
	return s
}

// dueStep returns the next due step. It checks the most basic condition first.
func (r Rotation) dueStep(s State, now time.Time) step {
	if i := slices.IndexFunc(s.CAs, func(a CA) bool { return !now.Before(a.Certificate.NotAfter) }); i != notFound {
		return step{removeCA, i}
	}
	signer, newest := s.signer(), len(s.CAs)-1
	for i := range newest {
		if i != signer && !now.Before(s.CAs[i].NeededUntil) {
			return step{removeCA, i}
		}
	}
	if newest < 0 || !s.CAs[newest].canSign(now) || !now.Before(s.CAs[newest].renewalTime()) {
		return step{change: addCA}
	}
	trusted := r.trustedSigner(s, now)
	switch {
	case signer == notFound || !s.Serving.isValid(now) || !s.Serving.hasNames(r.Names):
		// No API server accepts the current serving certificate, so any replacement is an improvement.
		if trusted == notFound {
			trusted = newest
		}
		return step{signServing, trusted}
	case trusted > signer:
		return step{signServing, trusted}
	case !now.Before(s.Serving.renewalTime()) && s.CAs[signer].canSign(now):
		return step{signServing, signer} // trusted as much as the current serving certificate
	case !now.Before(s.Serving.renewalTime()) && trusted != notFound:
		return step{signServing, trusted}
	default:
		return step{}
	}
}

func (a CA) canSign(now time.Time) bool { return a.Key != nil && a.isValid(now) }

// trustedSigner returns the index of the newest CA that can sign and that all API servers had time to load, or notFound.
func (r Rotation) trustedSigner(s State, now time.Time) int {
	for i, a := range slices.Backward(s.CAs) {
		if a.canSign(now) && !a.PublishedSince.IsZero() && now.Sub(a.PublishedSince) >= r.SettleTime {
			return i
		}
	}
	return notFound
}

// apply returns the state after the step. It may change the CAs in s.
func (r Rotation) apply(due step, s State, now time.Time) (State, error) {
	switch due.change {
	case removeCA:
		s.CAs = slices.Delete(s.CAs, due.ca, due.ca+1)
	case addCA:
		ca, err := newCA(r.CALifetime, now)
		if err != nil {
			return State{}, err
		}
		s.CAs = append(s.CAs, CA{Pair: ca})
	case signServing:
		issuer := &s.CAs[due.ca]
		serving, err := newServing(r.Names, r.CertificateLifetime, issuer.Pair, now)
		if err != nil {
			return State{}, err
		}
		s.Serving = serving
		if serving.Certificate.NotAfter.After(issuer.NeededUntil) {
			issuer.NeededUntil = serving.Certificate.NotAfter
		}
	}
	return s, nil
}

// maxRecoveredCAs bounds how many CAs of unknown origin stay trusted.
const maxRecoveredCAs = 4

// Recover returns a State to continue from when the stored one is lost. The published CAs stay trusted for the lifetime of a certificate.
// The pair that this process serves stays in use until the next CA is trusted.
func (r Rotation) Recover(held Pair, published Bundles, now time.Time) State {
	var s State
	for _, bundle := range published {
		for _, c := range decodeCertificates(bundle) {
			listed := slices.ContainsFunc(s.CAs, func(a CA) bool { return a.Certificate.Equal(c) })
			pair := Pair{Certificate: c}
			if !listed && c.IsCA && pair.isValid(now) && len(s.CAs) < maxRecoveredCAs {
				s.CAs = append(s.CAs, CA{Pair: pair, NeededUntil: now.Add(r.CertificateLifetime).UTC()})
			}
		}
	}
	s.Serving = held // Advance replaces it if no CA in s has signed it
	return s
}
