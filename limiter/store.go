package limiter

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Charge requests Cost units on the counter at Key under Limit.
type Charge struct {
	// Key of the counter; build it with [KeySpace.Key]. The keys of one call are distinct.
	Key string
	// Limit of the counter.
	Limit Limit
	// Cost is the number of units. A cost of 0 or below counts nothing.
	Cost int64
	// Debt charges report usage that has happened. They are allowed while one unit remains, and always counted in full, up to MaxUnits:
	// also if this charge or another one is denied. Their algorithm is FixedWindow or SlidingWindowCounter, and they have no Lease.
	Debt bool
	// Whole debts are allowed only if all of their units remain. They too are always counted in full.
	Whole bool
	// Shadow charges are counted and reported. A denied shadow charge does not prevent the other charges from being counted.
	Shadow bool
	// OnStoreFailure is how the charge is decided while the counter is unavailable. Stores that do not fail over ignore it.
	OnStoreFailure StoreFailure
	// Lease allows a replica to spend units of the counter ahead. It is nil if every charge is spent on its own. Stores ignore it.
	Lease *LeaseTerms
}

// Bounds of leases.
const (
	MaxLeasePercent = 50
	MinLeaseAge     = 100 * time.Millisecond
	MaxLeaseAge     = 10 * time.Second
)

// LeaseTerms bound the leases of a counter: units that a replica has spent on the counter ahead of the requests that it then admits from
// memory.
type LeaseTerms struct {
	// MaxPercent is the largest part of the limit that all replicas together hold in leases, in percent, 1 … [MaxLeasePercent].
	MaxPercent int64
	// MaxAge is the longest time from the spend to the last request that is admitted from it, [MinLeaseAge] … [MaxLeaseAge]. It is at most
	// half of the window.
	MaxAge time.Duration
}

// StoreFailure is how a charge is decided while its counter is unavailable.
type StoreFailure uint8

// The ways to decide while a counter is unavailable.
const (
	LocalOnFailure StoreFailure = iota // on this replica's share of the limit
	AllowOnFailure                     // as if nothing had been spent; nothing is counted
	DenyOnFailure                      // not at all: the request is refused with an error; a shadow charge is allowed
)

// maxCost is above every limit and burst. A higher cost is denied in the same way, and no sum overflows.
const maxCost = 2 * MaxUnits

// Units is Cost, bounded to at least 0 and at most an amount that no limit admits.
func (c *Charge) Units() int64 { return units(c.Cost) }

// Needed is the number of units that must remain so that the charge is allowed.
func (c *Charge) Needed() int64 {
	if c.Debt && !c.Whole {
		return min(c.Units(), 1)
	}
	return c.Units()
}

// CountsAlways reports whether the charge is counted whatever the decisions about it and about other charges are.
func (c *Charge) CountsAlways() bool { return c.Debt && c.Cost > 0 }

func units(cost int64) int64 { return min(max(cost, 0), maxCost) }

// A Store keeps counters and decides charges on them. Implementations are safe for concurrent use.
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
	// Reset deletes the counters at keys.
	Reset(ctx context.Context, keys []string) error
}

// ErrOverloaded is the error of a call that a Store did not make, because this process could not keep up with its calls. It is
// no evidence that the counters are unavailable.
var ErrOverloaded = errors.New("not sent: this process is overloaded")

// ErrReplyLost is the error of a call to which a Store got no reply, although the Store answers others. It may have been counted.
var ErrReplyLost = errors.New("the reply was lost")

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
