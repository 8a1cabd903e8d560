package certificate

import (
	"slices"
	"time"
)

// A step is one change of a State.
type step struct {
	change change
	ca     int // of the authority that it is about
}

type change int

const (
	noChange    change = iota
	removeCA           // an authority that nobody needs
	addCA              // an authority, which nobody trusts yet
	signServing        // what is served, by an authority
)

// mostSteps bounds what one call does: retiring some, adding one and signing. What is left waits for the next.
const maxSteps = 16

// Next returns what should be, given what is, what the webhook configurations carry, and the time. It returns s itself when
// there is nothing to do. The error is of the machine's randomness.
func (t Rotation) Advance(s State, carried Bundles, now time.Time) (State, error) {
	s = s.recordPublished(carried, now)
	for range maxSteps {
		due := t.dueStep(s, now)
		if due.change == noChange {
			break
		}
		next, err := t.apply(due, s, now)
		if err != nil {
			return State{}, err
		}
		s = next
	}
	return s, nil
}

// observe notes since when each authority is carried everywhere. A clock that was ahead is not believed.
func (s State) recordPublished(carried Bundles, now time.Time) State {
	s = s.clone()
	for i := range s.CAs {
		switch a := &s.CAs[i]; {
		case !carried.contain(*a):
			a.PublishedSince = time.Time{}
		case a.PublishedSince.IsZero() || a.PublishedSince.After(now):
			a.PublishedSince = now.Round(0).UTC() // as it is read from the Secret
		}
	}
	return s
}

// due is the next thing to do, the most basic first.
func (t Rotation) dueStep(s State, now time.Time) step {
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
	trusted := t.trustedSigner(s, now)
	switch {
	case signer == notFound || !s.Serving.isValid(now) || !s.Serving.hasNames(t.Names):
		// Nobody accepts what is served now, so that nothing can be made worse.
		if trusted == notFound {
			trusted = newest
		}
		return step{signServing, trusted}
	case trusted > signer:
		return step{signServing, trusted}
	case !now.Before(s.Serving.renewalTime()) && s.CAs[signer].canSign(now):
		return step{signServing, signer} // which is trusted as much as what is served
	case !now.Before(s.Serving.renewalTime()) && trusted != notFound:
		return step{signServing, trusted}
	default:
		return step{}
	}
}

func (a CA) canSign(now time.Time) bool { return a.Key != nil && a.isValid(now) }

// trusted is the newest authority that can sign and that every API server has had the time to learn of, or none.
func (t Rotation) trustedSigner(s State, now time.Time) int {
	for i, a := range slices.Backward(s.CAs) {
		if a.canSign(now) && !a.PublishedSince.IsZero() && now.Sub(a.PublishedSince) >= t.SettleTime {
			return i
		}
	}
	return notFound
}

// take makes the change.
func (t Rotation) apply(due step, s State, now time.Time) (State, error) {
	s = s.clone()
	switch due.change {
	case removeCA:
		s.CAs = slices.Delete(s.CAs, due.ca, due.ca+1)
	case addCA:
		authority, err := newCA(t.CALifetime, now)
		if err != nil {
			return State{}, err
		}
		s.CAs = append(s.CAs, CA{Pair: authority})
	case signServing:
		by := &s.CAs[due.ca]
		serving, err := newServing(t.Names, t.CertificateLifetime, by.Pair, now)
		if err != nil {
			return State{}, err
		}
		s.Serving = serving
		if serving.Certificate.NotAfter.After(by.NeededUntil) {
			by.NeededUntil = serving.Certificate.NotAfter
		}
	}
	return s, nil
}

// mostRecovered bounds how many authorities of unknown origin stay trusted.
const maxRecoveredCAs = 4

// Recover returns the State to go on from when the stored one is lost: whoever is trusted stays so for the life of a
// certificate, and what this process holds is served until the next authority is trusted.
func (t Rotation) Recover(held Pair, carried Bundles, now time.Time) State {
	var s State
	for _, bundle := range carried {
		for _, c := range decodeCertificates(bundle) {
			known := slices.ContainsFunc(s.CAs, func(a CA) bool { return a.Certificate.Equal(c) })
			pair := Pair{Certificate: c}
			if !known && c.IsCA && pair.isValid(now) && len(s.CAs) < maxRecoveredCAs {
				s.CAs = append(s.CAs, CA{Pair: pair, NeededUntil: now.Add(t.CertificateLifetime).UTC()})
			}
		}
	}
	s.Serving = held
	if s.signer() == notFound {
		s.Serving = Pair{}
	}
	return s
}
