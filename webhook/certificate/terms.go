package certificate

import (
	"errors"
	"fmt"
	"time"
)

// Terms are how long certificates live, and whom they name.
type Terms struct {
	// Names are the DNS names and IP addresses that API servers call: "weir-webhook.weir-system.svc".
	Names []string
	// Authority and Certificate are lifetimes. Both are renewed when two thirds have passed.
	Authority, Certificate time.Duration
	// Settle is how long an authority must have stood in every webhook configuration before what it signed is served: API
	// servers learn of a configuration by a watch, which may lag.
	Settle time.Duration
}

// DefaultTerms are for a Service: an authority of five years, certificates of 90 days.
func DefaultTerms(names ...string) Terms {
	const day = 24 * time.Hour
	return Terms{Names: names, Authority: 5 * 365 * day, Certificate: 90 * day, Settle: 10 * time.Minute}
}

// skew is how far the clocks of API servers may be behind: what is issued is valid from so long ago.
const skew = time.Hour

// check refuses lifetimes that leave no time for a rotation.
func (t Terms) check() error {
	switch {
	case len(t.Names) == 0:
		return errors.New("certificates name nobody")
	case t.Certificate <= 0 || t.Settle < 0:
		return fmt.Errorf("certificates of %v that serve after %v: want a lifetime, and no negative wait", t.Certificate, t.Settle)
	case t.Authority < 3*t.Certificate:
		// What an authority signs in the last moment before it is replaced must not outlive it.
		return fmt.Errorf("authorities of %v with certificates of %v: want three times as long", t.Authority, t.Certificate)
	case t.Certificate < 6*t.Settle:
		// A certificate is renewed with a third of its life left, and half of that is for a new authority to be trusted in.
		return fmt.Errorf("certificates of %v that serve after %v: want six times as long", t.Certificate, t.Settle)
	default:
		return nil
	}
}

// renewal is when something that was issued and ends is replaced. Whole seconds are all that certificates know.
func renewal(issued, ends time.Time) time.Time { return issued.Add(ends.Sub(issued) / 3 * 2) }
