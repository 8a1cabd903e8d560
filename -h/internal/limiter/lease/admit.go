package lease

import (
	"context"

	"github.com/weir-dev/weir/go/internal/limiter"
)

// Admit returns a layer that admits requests on leases, and passes the others on.
func (l *Leases) Admit(next limiter.Store) limiter.Store { return &admits{next, l} }

// admits is the layer of Admit.
type admits struct {
	limiter.Store

	leases *Leases
}

// Spend implements limiter.Store. A request is admitted if the leases have the units of all of its charges.
func (s *admits) Spend(ctx context.Context, charges []limiter.Charge) ([]limiter.Decision, error) {
	if decisions := s.leases.admit(charges); decisions != nil {
		return decisions, nil
	}
	return s.Store.Spend(ctx, charges)
}

// admit takes the units of all charges from their leases and returns the decisions about them, or takes nothing and returns nil.
func (l *Leases) admit(charges []limiter.Charge) []limiter.Decision {
	for i := range charges {
		if charges[i].Lease == nil {
			return nil
		}
	}
	now := l.toInstant(l.clock())
	var usual [8]taken
	admitted := usual[:0]
	for i := range charges {
		t, ok := l.take(&charges[i], now)
		if !ok {
			for j := range admitted {
				l.giveBack(&admitted[j])
			}
			return nil
		}
		admitted = append(admitted, t)
	}
	decisions := make([]limiter.Decision, len(admitted))
	for i := range admitted {
		decisions[i] = admitted[i].decision()
	}
	return decisions
}

// Refund implements limiter.Store. The latest units go back to a lease, as far as it can hold them.
func (s *admits) Refund(ctx context.Context, refunds []limiter.Refund) error {
	now := s.leases.toInstant(s.leases.clock())
	rest := make([]limiter.Refund, 0, len(refunds))
	for _, r := range refunds {
		if r.Latest {
			r.Cost = r.Units() - s.leases.refund(&r, now)
		}
		if r.Cost > 0 {
			rest = append(rest, r)
		}
	}
	if len(rest) == 0 {
		return nil
	}
	return s.Store.Refund(ctx, rest)
}

// Reset implements limiter.Store.
func (s *admits) Reset(ctx context.Context, keys []string, id string) error {
	s.leases.Drop(keys...)
	return s.Store.Reset(ctx, keys, id)
}
