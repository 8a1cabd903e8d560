package limiter

import (
	"cmp"
	"math"
	"time"
)

// Never is the RetryAfter of a charge that cannot be allowed after any wait, because its cost is above the limit.
const Never = time.Duration(math.MaxInt64)

// Decision is the result of a charge. Durations are whole microseconds.
type Decision struct {
	// At is the instant of the decision, by the clock of the store that holds the counter. [Refund] needs it.
	At Instant
	// Ahead is how far At is ahead of the clock of the store: more than 0 after the clock has stepped back.
	Ahead time.Duration
	// Allowed is whether this charge alone is allowed. A request is allowed only if all its enforced charges are.
	Allowed bool
	// Origin is where the decision was made.
	Origin Origin
	// Shared is true if the decision is about the counter that identifiers without a counter of their own share, see [Charge.SharedKey].
	Shared bool
	// Limit is the units per window of the limit.
	Limit int64
	// Remaining is the number of units that a request could spend now.
	Remaining int64
	// ResetAfter is the time until the full limit is available again if nothing more is spent.
	ResetAfter time.Duration
	// RetryAfter is the shortest wait after which the same cost would be allowed if nothing else is spent: 0 if Allowed, [Never] if no
	// wait suffices.
	RetryAfter time.Duration
	// Delay is how long an allowed request must wait for its turn under a LeakyBucket. Its units are already counted.
	Delay time.Duration
}

// Origin is where a decision was made.
type Origin uint8

// The origins of a decision.
const (
	// OriginStore: by the store that keeps the counters. Only layers above it make decisions with other origins.
	OriginStore Origin = iota
	// OriginLocal: by this replica, because the store that holds the counter was unavailable.
	OriginLocal
	// Undecided: the charge was not decided, because another charge of the request was denied first, on a counter in another store. All
	// other fields are zero.
	Undecided
	// OriginLease: by this replica, on units that it had spent in the store before.
	OriginLease
	// OriginDenial: by this replica, because the store had denied before, and nothing could be admitted since.
	OriginDenial
)

// CompareStrictness orders decisions strictest first: denied before allowed; among denied decisions the longest RetryAfter first; among
// allowed ones the smallest Remaining relative to the limit first. Callers order equal decisions by name.
func CompareStrictness(a, b Decision) int {
	if a.Allowed != b.Allowed {
		if b.Allowed {
			return -1
		}
		return 1
	}
	if !a.Allowed {
		return cmp.Compare(b.RetryAfter, a.RetryAfter)
	}
	// a.Remaining/a.Limit < b.Remaining/b.Limit, without division; all four stay below 2^30.
	return cmp.Compare(a.Remaining*b.Limit, b.Remaining*a.Limit)
}

// Counted returns d, the decision of a Peek that allows c, as it is after c is counted: with the Remaining of a Spend. The ResetAfter of a
// bucket is that of a Spend, too, or a microsecond longer if a unit does not take whole microseconds. That of the other algorithms is unchanged.
func (c *Charge) Counted(d Decision) Decision {
	d.Remaining = max(0, d.Remaining-c.Units())
	if c.Limit.Traits().Drains {
		d.ResetAfter += c.Limit.drainTime(c.Units())
	}
	return d
}
