package failover

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/weir-dev/weir/limiter"
)

func haveDebts(charges []limiter.Charge) bool {
	return slices.ContainsFunc(charges, func(c limiter.Charge) bool { return c.CountsAlways() })
}

// decideDebts spends charges of which some are debts, while the remote store is not available for all of them. It spends the debts first,
// one by one, because they are counted wherever the other charges are decided. If a debt is denied, it peeks the other charges.
func (s *Store) decideDebts(ctx context.Context, charges []limiter.Charge, began time.Time) ([]limiter.Decision, error) {
	all, passed := undecided(len(charges)), true
	var others subset
	for i, c := range charges {
		if !c.CountsAlways() {
			others.add(i, c)
			continue
		}
		own, err := s.decideDebt(ctx, charges[i:i+1], began)
		if refused, is := errors.AsType[*RefusedError](err); is {
			refused.Charge = i
		}
		if err != nil {
			return nil, err
		}
		all[i] = own[0]
		passed = passed && (c.Shadow || own[0].Allowed)
	}
	if len(others.charges) == 0 {
		return all, nil
	}
	decisions, err := s.decide(ctx, others.charges, !passed)
	if err != nil {
		return nil, others.reindexed(err)
	}
	others.copyTo(all, decisions)
	return all, nil
}

// decideDebt spends one debt where its counter is now. Unlike decideWhileRecovering it does not spend it on both sides: it could not
// refund it on one of them.
func (s *Store) decideDebt(ctx context.Context, charge []limiter.Charge, began time.Time) ([]limiter.Decision, error) {
	if s.remote.Unavailable(charge[0].Key) {
		return s.decideLocally(charge, false, nil)
	}
	decisions, err := s.call(ctx, charge, false, began)
	if err != nil {
		return s.decideWithout(charge, false, err)
	}
	return decisions, nil
}
