package limiter

import (
	"context"
	"fmt"
)

// Refund requests that Cost units on the counter at Key are refunded. A cost of 0 or below refunds nothing.
type Refund struct {
	Key   string
	Limit Limit
	Cost  int64
	// At is that of the charge's [Decision].
	At Instant
	// Latest refunds the units that were spent last, in place of those that were spent at At.
	Latest bool
}

// RefundError is the error of a [Store.Refund] whose refunds are not all of one kind: those of keys that are not listed were made.
type RefundError struct {
	// Keys of the refunds that failed. They may have been made, or not.
	Keys []string
	// Cause has the errors of all of them.
	Cause error
}

func (e *RefundError) Error() string {
	return fmt.Sprintf("refund on %d counters: %v", len(e.Keys), e.Cause)
}

func (e *RefundError) Unwrap() error { return e.Cause }

// Units is Cost, bounded to at least 0 and at most an amount that no limit admits.
func (r *Refund) Units() int64 { return units(r.Cost) }

// maxRefundRounds bounds from how many instants of a log one refund takes units.
const maxRefundRounds = 64

// RefundLatest refunds the units of r that were spent last, with Peeks that find the instants at which they were spent. Stores call it for
// Latest refunds.
func RefundLatest(ctx context.Context, store Store, r Refund) error {
	r.Latest = false
	state := []Charge{{Key: r.Key, Limit: r.Limit}}
	for range maxRefundRounds {
		if r.Cost <= 0 {
			return nil
		}
		before, err := store.Peek(ctx, state)
		if err != nil {
			return err
		}
		r.At = latestSpend(r.Limit, before[0])
		if err := store.Refund(ctx, []Refund{r}); err != nil {
			return err
		}
		if !r.Limit.Traits().Log || before[0].ResetAfter == 0 {
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
		r.Cost -= refunded
	}
	return nil
}

// latestSpend is the instant at which the last of the units that count was spent. Only a log knows it; the other algorithms refund the same
// at any instant, so it is the instant of the decision.
func latestSpend(limit Limit, d Decision) Instant {
	if !limit.Traits().Log || d.ResetAfter == 0 {
		return d.At
	}
	return d.At.Add(d.ResetAfter - limit.Window())
}
