package certificate

import (
	"errors"
	"fmt"
	"time"
)

// Terms are how long certificates live, and whom they name.
type Rotation struct {
	// Names are the DNS names and IP addresses that API servers call: "weir-webhook.weir-system.svc".
	Names []string
	// Authority and Certificate are lifetimes. Both are renewed when two thirds have passed.
	CALifetime, CertificateLifetime time.Duration
	// Settle is how long an authority must have stood in every webhook configuration before what it signed is served: API
	// servers learn of a configuration by a watch, which may lag.
	SettleTime time.Duration
}

// DefaultTerms are for a Service: an authority of five years, certificates of 90 days.
func DefaultRotation(names ...string) Rotation {
	const day = 24 * time.Hour
	return Rotation{Names: names, CALifetime: 5 * 365 * day, CertificateLifetime: 90 * day, SettleTime: 10 * time.Minute}
}

// skew is how far the clocks of API servers may be behind: what is issued is valid from so long ago.
const clockSkew = time.Hour

// check refuses lifetimes that leave no time for a rotation.
func (t Rotation) validate() error {
	switch {
	case len(t.Names) == 0:
		return errors.New("certificates name nobody")
	case t.CertificateLifetime <= 0 || t.SettleTime < 0:
		return fmt.Errorf("certificates of %v that serve after %v: want a lifetime, and no negative wait", t.CertificateLifetime, t.SettleTime)
	case t.CALifetime < 3*t.CertificateLifetime:
		// What an authority signs in the last moment before it is replaced must not outlive it.
		return fmt.Errorf("authorities of %v with certificates of %v: want three times as long", t.CALifetime, t.CertificateLifetime)
	case t.CertificateLifetime < 6*t.SettleTime:
		// A certificate is renewed with a third of its life left, and half of that is for a new authority to be trusted in.
		return fmt.Errorf("certificates of %v that serve after %v: want six times as long", t.CertificateLifetime, t.SettleTime)
	default:
		return nil
	}
}

// renewal is when something that was issued and ends is replaced. Whole seconds are all that certificates know.
func renewalTime(issued, ends time.Time) time.Time { return issued.Add(ends.Sub(issued) / 3 * 2) }
