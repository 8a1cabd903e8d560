package limiter

import (
	"context"
	"errors"
	"fmt"
)

// A Store decides charges on counters. It keeps the counters, or it is a layer that makes some decisions itself and lets the next Store make
// the others. Implementations are safe for concurrent use, and do not keep the arguments of a call after it returns.
type Store interface {
	// Spend decides all charges at one instant and returns one decision per charge, in order. If every enforced charge is allowed, it
	// counts all of them and those shadow charges that are allowed; otherwise it counts none of them. Debt charges are counted in any
	// case. Decisions describe the counters after the call.
	//
	// After an error, the charges may or may not have been counted. After [ErrOverloaded] they have not been counted. A [*PartialError]
	// has the debts that were counted.
	Spend(ctx context.Context, charges []Charge) ([]Decision, error)
	// Peek returns what Spend would decide, with the current Remaining and ResetAfter, and changes nothing. Spend counts a denied debt, so
	// its RetryAfter includes the units of the debt.
	Peek(ctx context.Context, charges []Charge) ([]Decision, error)
	// Refund refunds units that Spend counted, as far as they still count. It never refunds more than that, and nothing after their
	// window has ended.
	Refund(ctx context.Context, refunds []Refund) error
	// Reset deletes the counters at keys. Several processes that share counters can make the same reset, some of them after an outage: with an
	// id, which is then that of the reset, the counters are reset once. Without one ("") each of them resets them.
	Reset(ctx context.Context, keys []string, id string) error
}

// RefusedError is the error of a request that contains a charge whose OnStoreFailure is DenyOnFailure, while that charge's counter is
// unavailable.
type RefusedError struct {
	// Charge is the index of the charge in the request.
	Charge int
	// Cause is why the counter is unavailable; nil if no store was called.
	Cause error
}

func (e *RefusedError) Error() string {
	if e.Cause == nil {
		return fmt.Sprintf("charge %d is refused while the store is unavailable", e.Charge)
	}
	return fmt.Sprintf("charge %d is refused while the store is unavailable: %v", e.Charge, e.Cause)
}

func (e *RefusedError) Unwrap() error { return e.Cause }

// ErrOverloaded is the error of a call that a Store did not make, because this process could not keep up with its calls. It is
// no evidence that the counters are unavailable.
var ErrOverloaded = errors.New("not sent: this process is overloaded")

// ErrReplyLost is the error of a call that a Store sent, and to which it got no reply. It may have been counted.
var ErrReplyLost = errors.New("the reply was lost")

// ErrNotSent is the error of a call that a Store did not send, because the counters were unavailable at that moment. It was not counted.
var ErrNotSent = errors.New("not sent")

// PartialError is the error of a Spend that failed after it had counted debts.
type PartialError struct {
	// Decisions about the charges, in order. Their Origin is Undecided, except those about the debts that were counted.
	Decisions []Decision
	Cause     error
}

func (e *PartialError) Error() string { return fmt.Sprintf("after debts were counted: %v", e.Cause) }

// Unwrap returns the cause, unless it is [ErrOverloaded]: then nothing would have been counted.
func (e *PartialError) Unwrap() error {
	if errors.Is(e.Cause, ErrOverloaded) {
		return nil
	}
	return e.Cause
}

// Refund requests that Cost units on the counter at Key are refunded. A cost of 0 or below refunds nothing.
type Refund struct {
	Key   string
	Limit Limit
	Cost  int64
	// At is that of the charge's [Decision].
	At Instant
	// Latest refunds the units that were spent last, in place of those that were spent at At.
	Latest bool
	// WholeShare is that of the charge. Only [Refund.Latest] needs it.
	WholeShare bool
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
		beforeRefund, err := store.Peek(ctx, state)
		if err != nil {
			return err
		}
		r.At = latestSpend(r.Limit, beforeRefund[0])
		if err := store.Refund(ctx, []Refund{r}); err != nil {
			return err
		}
		if !r.Limit.Traits().Log || beforeRefund[0].ResetAfter == 0 {
			return nil
		}
		afterRefund, err := store.Peek(ctx, state)
		if err != nil {
			return err
		}
		refunded := afterRefund[0].Remaining - beforeRefund[0].Remaining
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
