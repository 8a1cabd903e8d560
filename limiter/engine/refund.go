package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/weir-dev/weir/limiter"
)

// refundRounds bounds how many instants of a SlidingWindowLog a refund takes units from.
const refundRounds = 64

// Refund takes back what requests like those of checks were charged, as far as it still counts: the units spent last. It
// does not ask for what; who refunds what was never spent frees others' units.
func (e *Engine) Refund(ctx context.Context, checks []Check) error {
	now := e.inForce.Load()
	if now == nil {
		return ErrNoRules
	}
	var subjects []subject
	for i := range checks {
		subjects = merge(subjects, now.identify(nil, &checks[i]))
	}
	var errs []error
	for i := range subjects {
		if err := e.refund(ctx, subjects[i].charge); err != nil {
			errs = append(errs, fmt.Errorf("refund %s: %w", subjects[i].rule.Policy, err))
		}
	}
	return errors.Join(errs...)
}

func (e *Engine) refund(ctx context.Context, charge limiter.Charge) error {
	if e.remote != nil && e.remote.Unavailable(charge.Key) {
		peeked := []limiter.Charge{charge}
		decisions := e.local.Peek(peeked)
		decisions[0].Allowed = true // Refund asks whether it was
		e.local.Refund(peeked, decisions)
		return nil
	}
	defer e.Forget(charge.Key)
	for range refundRounds {
		if charge.Cost <= 0 {
			return nil
		}
		before, err := e.store.Peek(ctx, []limiter.Charge{{Key: charge.Key, Limit: charge.Limit}})
		if err != nil {
			return err
		}
		refund := limiter.Refund{Key: charge.Key, Limit: charge.Limit, Cost: charge.Cost, At: spentLast(charge.Limit, before[0])}
		if err := e.store.Refund(ctx, []limiter.Refund{refund}); err != nil {
			return err
		}
		if charge.Limit.Algorithm() != limiter.SlidingWindowLog || before[0].ResetAfter == 0 {
			return nil
		}
		after, err := e.store.Peek(ctx, []limiter.Charge{{Key: charge.Key, Limit: charge.Limit}})
		if err != nil {
			return err
		}
		back := after[0].Remaining - before[0].Remaining
		if back <= 0 {
			return nil
		}
		charge.Cost -= back
	}
	return nil
}

// spentLast is when the last of the units that count was spent: a log tells it, to the others now is as good.
func spentLast(limit limiter.Limit, d limiter.Decision) limiter.Instant {
	if limit.Algorithm() != limiter.SlidingWindowLog || d.ResetAfter == 0 {
		return d.At
	}
	return d.At.Add(d.ResetAfter - limit.Window())
}
