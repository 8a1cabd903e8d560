package limiter

import (
	"cmp"
	"math"
	"time"
)

// Never is the RetryAfter of a charge that no wait can make pass: its cost is above the limit.
const Never = time.Duration(math.MaxInt64)

// Decision is what a charge gets. Durations are whole microseconds.
type Decision struct {
	// At is the instant that the charge was decided at, by the counter's own time: what [Refund] needs.
	At Instant
	// Allowed says whether this charge by itself passes. A request passes only when all its enforced charges do.
	Allowed bool
	// Origin is where the decision was made.
	Origin Origin
	// Limit is the units per window that the decision was made against.
	Limit int64
	// Remaining is how many units a request arriving now could still spend at once.
	Remaining int64
	// ResetAfter is how long until the full limit is available again if nothing more comes.
	ResetAfter time.Duration
	// RetryAfter is the least wait after which the same cost would be admitted if nothing else comes in
	// between: 0 when Allowed, [Never] when no wait suffices.
	RetryAfter time.Duration
	// Delay is how long an allowed request has to wait for its turn under a LeakyBucket. Its units are counted already.
	Delay time.Duration
}

// Origin is where a decision was made.
type Origin uint8

// The origins of a decision.
const (
	// OriginStore: by the store that was called. All stores but those that fail over decide so.
	OriginStore Origin = iota
	// OriginLocal: locally, because the store that holds the counter was unavailable.
	OriginLocal
	// Undecided: not at all. Another charge of the request was denied first, on counters that are not in the same store. All
	// other fields are zero.
	Undecided
)

// CompareStrictness orders decisions strictest first: denied before allowed; among denied the longest RetryAfter
// first; among allowed the fewest Remaining relative to the limit first. Ties are for the caller to break, by name.
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
