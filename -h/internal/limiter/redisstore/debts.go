package redisstore

import (
	"slices"

	"github.com/weir-dev/weir/go/internal/limiter"
)

func haveDebts(charges []limiter.Charge) bool {
	return slices.ContainsFunc(charges, func(c limiter.Charge) bool { return c.CountsAlways() })
}

// spendDebts spends charges in several slots of which some are debts. It spends the debts first, one by one, because they are counted and
// never refunded, whatever the decisions about the other charges are. If a debt is denied, it peeks the other charges.
func (s *Store) spendDebts(origin origin, charges []limiter.Charge) ([]limiter.Decision, error) {
	decisions, denied, counted := make([]limiter.Decision, len(charges)), false, false
	var others chargeGroup
	for i, c := range charges {
		if !c.CountsAlways() {
			others.charges, others.indexes = append(others.charges, c), append(others.indexes, i)
		}
		decisions[i].Origin = limiter.Undecided
	}
	fail := func(err error) ([]limiter.Decision, error) {
		if !counted {
			return nil, err
		}
		return nil, &limiter.PartialError{Decisions: decisions, Cause: err}
	}
	for i, c := range charges {
		if !c.CountsAlways() {
			continue
		}
		own, err := s.run(origin, modeSpend, charges[i:i+1])
		if err != nil {
			return fail(err)
		}
		decisions[i], counted, origin = own[0], true, origin.later()
		denied = denied || !c.Shadow && !own[0].Allowed
	}
	if len(others.charges) == 0 {
		return decisions, nil
	}
	decide := s.spendUntil
	if denied {
		decide = s.peekUntil
	}
	own, err := decide(origin, others.charges)
	if err != nil {
		return fail(err)
	}
	others.place(decisions, own)
	return decisions, nil
}
