package certificate

import (
	"errors"
	"fmt"
	"time"
)

// Rotation states for which names certificates are issued, and how long they live.
type Rotation struct {
	// Names are the DNS names and IP addresses that API servers call, for example "weir-webhook.weir-system.svc".
	Names []string
	// CALifetime and CertificateLifetime are lifetimes. A certificate is renewed after two thirds of its lifetime.
	CALifetime, CertificateLifetime time.Duration
	// SettleTime is how long a CA must be in every webhook configuration before a certificate that it signed is served. API servers
	// watch the configurations, and a watch may lag.
	SettleTime time.Duration
}

// DefaultRotation returns the default lifetimes: five years for CAs, 90 days for certificates.
func DefaultRotation(names ...string) Rotation {
	const day = 24 * time.Hour
	return Rotation{Names: names, CALifetime: 5 * 365 * day, CertificateLifetime: 90 * day, SettleTime: 10 * time.Minute}
}

// clockSkew is how far the clocks of API servers may be behind. Certificates are valid from this long before they are issued.
const clockSkew = time.Hour

// validate rejects lifetimes that leave no time for a rotation.
func (r Rotation) validate() error {
	switch {
	case len(r.Names) == 0:
		return errors.New("the certificates have no Names")
	case r.CertificateLifetime <= 0 || r.SettleTime < 0:
		return fmt.Errorf("CertificateLifetime %v must be positive, and SettleTime %v must not be negative", r.CertificateLifetime, r.SettleTime)
	case r.CALifetime < 3*r.CertificateLifetime:
		// A certificate that a CA signs just before the CA is replaced must not expire after the CA.
		return fmt.Errorf("CALifetime %v must be at least three times CertificateLifetime %v", r.CALifetime, r.CertificateLifetime)
	case r.CertificateLifetime < 6*r.SettleTime:
		// A certificate is renewed with a third of its lifetime left. Half of that is for a new CA to become trusted.
		return fmt.Errorf("CertificateLifetime %v must be at least six times SettleTime %v", r.CertificateLifetime, r.SettleTime)
	default:
		return nil
	}
}

// renewalTime returns when a certificate with these dates must be replaced. The result is in whole seconds, as in certificates.
func renewalTime(issued, ends time.Time) time.Time { return issued.Add(ends.Sub(issued) / 3 * 2) }
