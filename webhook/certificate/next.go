package certificate

import (
	"slices"
	"time"
)

// A step is one change of a State.
type step struct {
	change change
	at     int // of the authority that it is about
}

type change int

const (
	nothing change = iota
	retire         // an authority that nobody needs
	add            // an authority, which nobody trusts yet
	sign           // what is served, by an authority
)

// mostSteps bounds what one call does: retiring some, adding one and signing. What is left waits for the next.
const mostSteps = 16

// Next returns what should be, given what is, what the webhook configurations carry, and the time. It returns s itself when
// there is nothing to do. The error is of the machine's randomness.
func (t Terms) Next(s State, carried Bundles, now time.Time) (State, error) {
	s = s.observe(carried, now)
	for range mostSteps {
		due := t.due(s, now)
		if due.change == nothing {
			break
		}
		next, err := t.take(due, s, now)
		if err != nil {
			return State{}, err
		}
		s = next
	}
	return s, nil
}

// observe notes since when each authority is carried everywhere. A clock that was ahead is not believed.
func (s State) observe(carried Bundles, now time.Time) State {
	s = s.clone()
	for i := range s.Authorities {
		switch a := &s.Authorities[i]; {
		case !carried.carry(*a):
			a.Carried = time.Time{}
		case a.Carried.IsZero() || a.Carried.After(now):
			a.Carried = now.Round(0).UTC() // as it is read from the Secret
		}
	}
	return s
}

// due is the next thing to do, the most basic first.
func (t Terms) due(s State, now time.Time) step {
	if i := slices.IndexFunc(s.Authorities, func(a Authority) bool { return !now.Before(a.Certificate.NotAfter) }); i != none {
		return step{retire, i}
	}
	signer, newest := s.signer(), len(s.Authorities)-1
	for i := range newest {
		if i != signer && !now.Before(s.Authorities[i].Needed) {
			return step{retire, i}
		}
	}
	if newest < 0 || !s.Authorities[newest].canSign(now) || !now.Before(s.Authorities[newest].renewal()) {
		return step{change: add}
	}
	trusted := t.trusted(s, now)
	switch {
	case signer == none || !s.Serving.isValid(now) || !s.Serving.names(t.Names):
		// Nobody accepts what is served now, so that nothing can be made worse.
		if trusted == none {
			trusted = newest
		}
		return step{sign, trusted}
	case trusted > signer:
		return step{sign, trusted}
	case !now.Before(s.Serving.renewal()) && s.Authorities[signer].canSign(now):
		return step{sign, signer} // which is trusted as much as what is served
	case !now.Before(s.Serving.renewal()) && trusted != none:
		return step{sign, trusted}
	default:
		return step{}
	}
}

func (a Authority) canSign(now time.Time) bool { return a.Key != nil && a.isValid(now) }

// trusted is the newest authority that can sign and that every API server has had the time to learn of, or none.
func (t Terms) trusted(s State, now time.Time) int {
	for i, a := range slices.Backward(s.Authorities) {
		if a.canSign(now) && !a.Carried.IsZero() && now.Sub(a.Carried) >= t.Settle {
			return i
		}
	}
	return none
}

// take makes the change.
func (t Terms) take(due step, s State, now time.Time) (State, error) {
	s = s.clone()
	switch due.change {
	case retire:
		s.Authorities = slices.Delete(s.Authorities, due.at, due.at+1)
	case add:
		authority, err := newAuthority(t.Authority, now)
		if err != nil {
			return State{}, err
		}
		s.Authorities = append(s.Authorities, Authority{Pair: authority})
	case sign:
		by := &s.Authorities[due.at]
		serving, err := newServing(t.Names, t.Certificate, by.Pair, now)
		if err != nil {
			return State{}, err
		}
		s.Serving = serving
		if serving.Certificate.NotAfter.After(by.Needed) {
			by.Needed = serving.Certificate.NotAfter
		}
	}
	return s, nil
}

// mostRecovered bounds how many authorities of unknown origin stay trusted.
const mostRecovered = 4

// Recover returns the State to go on from when the stored one is lost: whoever is trusted stays so for the life of a
// certificate, and what this process holds is served until the next authority is trusted.
func (t Terms) Recover(held Pair, carried Bundles, now time.Time) State {
	var s State
	for _, bundle := range carried {
		for _, c := range decodeCertificates(bundle) {
			known := slices.ContainsFunc(s.Authorities, func(a Authority) bool { return a.Certificate.Equal(c) })
			pair := Pair{Certificate: c}
			if !known && c.IsCA && pair.isValid(now) && len(s.Authorities) < mostRecovered {
				s.Authorities = append(s.Authorities, Authority{Pair: pair, Needed: now.Add(t.Certificate).UTC()})
			}
		}
	}
	s.Serving = held
	if s.signer() == none {
		s.Serving = Pair{}
	}
	return s
}
