package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/weir-dev/weir/limiter"
)

// maxRefundRounds bounds from how many instants of a log one refund takes units.
const maxRefundRounds = 64

// Refund refunds what requests like checks were charged, as far as it still counts: the units that were spent last. It does
// not verify that such requests were charged: a caller that refunds what was never spent frees the units of other requests.
// A rule refunds nothing to an identifier that has or had a bypass of it in the last 10 minutes.
func (e *Engine) Refund(ctx context.Context, checks []Check) error {
	active := e.active.Load()
	if active == nil {
		return ErrNoRules
	}
	s := e.borrow()
	defer e.release(s)
	for i := range checks {
		active.match(s, &checks[i])
	}
	charges := s.mergeCharges(false)
	var errs []error
	for i := range charges {
		if e.bypasses.HasPassed(charges[i].rule.Policy, charges[i].identifier) {
			continue // the request was perhaps not charged
		}
		if err := e.refund(ctx, charges[i].charge); err != nil {
			errs = append(errs, fmt.Errorf("refund %s: %w", charges[i].rule.Policy, err))
		}
	}
	return errors.Join(errs...)
}

func (e *Engine) refund(ctx context.Context, charge limiter.Charge) error {
	if e.leases != nil {
		if charge.Cost = charge.Units() - e.leases.Refund(&charge, e.clock()); charge.Cost == 0 {
			return nil
		}
	}
	store := e.store
	if e.failover != nil {
		if e.failover.RefundLocally(charge) {
			return nil
		}
		store = e.failover.Remote()
	}
	defer e.Forget(charge.Key)
	return refundLatest(ctx, store, charge)
}

// refundLatest refunds the units of charge from the instants at which units were spent last.
func refundLatest(ctx context.Context, store limiter.Store, charge limiter.Charge) error {
	state := []limiter.Charge{{Key: charge.Key, Limit: charge.Limit}}
	for range maxRefundRounds {
		if charge.Cost <= 0 {
			return nil
		}
		before, err := store.Peek(ctx, state)
		if err != nil {
			return err
		}
		refund := limiter.Refund{Key: charge.Key, Limit: charge.Limit, Cost: charge.Cost, At: latestSpend(charge.Limit, before[0])}
		if err := store.Refund(ctx, []limiter.Refund{refund}); err != nil {
			return err
		}
		if !charge.Limit.Traits().Log || before[0].ResetAfter == 0 {
			return nil
		}
		after, err := store.Peek(ctx, state)
		if err != nil {
			return err
		}
		refunded := after[0].Remaining - before[0].Remaining
		if refunded <= 0 {
			return nil
		}
		charge.Cost -= refunded
	}
	return nil
}

// latestSpend is the instant at which the last of the units that count was spent. Only a log knows it; the other algorithms
// refund the same at any instant, so it is the instant of the decision.
func latestSpend(limit limiter.Limit, d limiter.Decision) limiter.Instant {
	if !limit.Traits().Log || d.ResetAfter == 0 {
		return d.At
	}
	return d.At.Add(d.ResetAfter - limit.Window())
}
