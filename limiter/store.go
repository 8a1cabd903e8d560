package limiter

import "context"

// Charge asks for Cost units on the counter at Key under Limit.
type Charge struct {
	// Key names the counter; build it with [Key]. The keys of one call are distinct.
	Key string
	// Limit is what the counter is held to.
	Limit Limit
	// Cost is the number of units. A cost of 0 counts nothing, nor does one below.
	Cost int64
	// Shadow charges are counted and reported but neither stop the others nor are stopped by one another.
	Shadow bool
	// OnStoreFailure is how the charge is decided while the counter is unavailable. Stores that do not fail over ignore it.
	OnStoreFailure StoreFailure
}

// StoreFailure is how a charge is decided while its counter is unavailable.
type StoreFailure uint8

// The ways to decide while a counter is unavailable.
const (
	LocalOnFailure StoreFailure = iota // on this replica's share of the limit
	AllowOnFailure                     // as if nothing had been spent; nothing is counted
	DenyOnFailure                      // not at all: the request is refused with an error; a shadow charge is allowed
)

// maxCost is above every limit and burst: what costs more is denied likewise, and no sum overflows.
const maxCost = 2 * MaxUnits

// Units is what Cost comes to: at least 0, and at most what no limit admits anyway.
func (c *Charge) Units() int64 { return units(c.Cost) }

func units(cost int64) int64 { return min(max(cost, 0), maxCost) }

// A Store keeps counters and decides charges on them. Implementations are safe for concurrent use.
type Store interface {
	// Spend decides all charges at one instant and answers with one decision per charge, in order. When every
	// charge that is not a shadow is allowed, they are all counted, and with them the shadow charges that are
	// allowed themselves; else nothing is counted. Decisions describe the counters after the call.
	//
	// An error means that the store could not say what happened: the charges may or may not have been counted.
	Spend(ctx context.Context, charges []Charge) ([]Decision, error)
	// Peek answers what Spend would decide, with Remaining and ResetAfter as they are, and changes nothing.
	Peek(ctx context.Context, charges []Charge) ([]Decision, error)
	// Refund takes back what Spend counted, as far as it still counts: never more than that, and nothing once its
	// window is over.
	Refund(ctx context.Context, refunds []Refund) error
	// Reset forgets the counters at keys.
	Reset(ctx context.Context, keys []string) error
}

// Refund asks for Cost units back that were spent on the counter at Key. A cost of 0 or below takes nothing back.
type Refund struct {
	Key   string
	Limit Limit
	Cost  int64
	// At is the [Decision]'s of the charge.
	At Instant
}

// Units is what Cost comes to: at least 0, and at most what no limit admits anyway.
func (r *Refund) Units() int64 { return units(r.Cost) }
