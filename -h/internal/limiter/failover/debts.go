package failover

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/weir-dev/weir/go/internal/limiter"
)

func haveDebts(charges []limiter.Charge) bool {
	return slices.ContainsFunc(charges, func(c limiter.Charge) bool { return c.CountsAlways() })
}

// decideDebts spends charges of which some are debts, while the remote store is not available for all of them. It spends the debts first,
// one by one, because they are counted wherever the other charges are decided. If a debt is denied, it peeks the other charges.
func (s *Store) decideDebts(ctx context.Context, charges []limiter.Charge, began time.Time) ([]limiter.Decision, error) {
	merged, passed := undecided(len(charges)), true
	var others subset
	for i, c := range charges {
		if !c.CountsAlways() {
			others.add(i, c)
			continue
		}
		own, err := s.decideDebt(ctx, charges[i:i+1], began)
		if refused, ok := errors.AsType[*limiter.RefusedError](err); ok {
			refused.Charge = i
		}
		if err != nil {
			return nil, afterDebts(merged, err)
		}
		merged[i] = own[0]
		passed = passed && (c.Shadow || own[0].Allowed)
	}
	if len(others.charges) == 0 {
		return merged, nil
	}
	decisions, err := s.decide(ctx, others.charges, !passed)
	if err != nil {
		return nil, afterDebts(merged, others.reindexed(err))
	}
	others.copyTo(merged, decisions)
	return merged, nil
}

// afterDebts is err as the error of a request of which those debts were counted that have a decision: it is not [limiter.ErrOverloaded].
func afterDebts(decisions []limiter.Decision, err error) error {
	counted := slices.ContainsFunc(decisions, func(d limiter.Decision) bool { return d.Origin != limiter.Undecided })
	if _, refused := errors.AsType[*limiter.RefusedError](err); refused || !counted || !errors.Is(err, limiter.ErrOverloaded) {
		return err
	}
	return &limiter.PartialError{Decisions: decisions, Cause: err}
}

// decideRest decides locally those charges whose debts the remote store did not count before it failed. If this process is overloaded, it
// decides nothing, see [Store.Spend].
func (s *Store) decideRest(charges []limiter.Charge, partial *limiter.PartialError) ([]limiter.Decision, error) {
	if errors.Is(partial.Cause, limiter.ErrOverloaded) {
		return nil, partial
	}
	merged, passed := partial.Decisions, true
	var rest subset
	for i, c := range charges {
		if merged[i].Origin == limiter.Undecided {
			rest.add(i, c)
			continue
		}
		passed = passed && (c.Shadow || merged[i].Allowed)
	}
	counts := countsAll
	if !passed {
		counts = countsDebts
	}
	decisions, err := s.decideLocally(rest.charges, counts, partial)
	if err != nil {
		return nil, rest.reindexed(err)
	}
	rest.copyTo(merged, decisions)
	return merged, nil
}

// decideDebt spends one debt where its counter is now. Unlike decideWhileRecovering it does not spend it on both sides: it could not
// refund it on one of them.
func (s *Store) decideDebt(ctx context.Context, charge []limiter.Charge, began time.Time) ([]limiter.Decision, error) {
	if s.isUnavailable(&charge[0]) {
		return s.decideLocally(charge, countsAll, nil)
	}
	decisions, err := s.call(ctx, charge, false, began)
	if err != nil {
		return s.decideWithout(charge, false, err)
	}
	return decisions, nil
}
