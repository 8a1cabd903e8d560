package lease

import (
	"time"

	"github.com/weir-dev/weir/go/internal/limiter"
)

const (
	// smallest is the number of units from which on a lease saves calls of the store: it costs one, and a part of another to return what is
	// left.
	smallest = 4
	// growth bounds how much larger a lease can be than the one before it, so that a short burst does not lease the whole share.
	growth = 4
	// spare is the part, 1/spare, by which a lease exceeds the demand, so that its units usually last as long as it does.
	spare = 8
)

// need is what is known about a counter when a lease is sized.
type need struct {
	terms     limiter.LeaseTerms
	limit     limiter.Limit
	replicas  int64
	used      int64         // units that this replica has charged
	period    time.Duration // the time in which it has
	previous  int64         // size of the lease before this one
	left      int64         // units of it that are left
	remaining int64         // units that the store has left, as it last reported
	cost      int64         // of the request that spends the units
}

// size returns the number of units to lease, 0 if a lease would not save calls. It follows the demand of this replica, within its part of
// the share, and within half of its part of what is left of the limit.
func (n need) size() int64 {
	period := max(n.period, time.Millisecond)
	rate := float64(n.used) / period.Seconds() // used can be far above the limit
	wanted := int64(min(rate*n.terms.MaxAge.Seconds()*(1+1.0/spare), limiter.MaxUnits))
	wanted = min(wanted, growth*max(n.previous, smallest), share(n.terms, n.limit, n.replicas)-n.left, (n.remaining-n.cost)/(2*n.replicas))
	if wanted < smallest || wanted < 2*n.cost {
		return 0
	}
	return wanted
}

// share is the largest number of units that one of several replicas holds.
func share(terms limiter.LeaseTerms, limit limiter.Limit, replicas int64) int64 {
	return min(limit.Units(), limit.Capacity()) * terms.MaxPercent / (100 * replicas)
}
