package local

import (
	"time"

	"github.com/weir-dev/weir/limiter"
)

// tryAgain is the RetryAfter of a cost that the limit admits but this replica's share never can: by then the store may be
// available again, or the request may reach another replica.
const tryAgain = time.Second

// Peers are the replicas that share every limit while none of them can reach the store.
type Peers struct {
	// Replicas is their number, including this one.
	Replicas int64
	// Rank is the position of this replica among them, from 0. The lowest ranks get the units that do not divide evenly.
	Rank int64
}

// share is this replica's share of a limit. It assumes that every replica spends as much as this one: each unit spent here counts
// as weight units, one of each replica. Of x units that are left, the replica of rank r so admits ⌊(x + weight − 1 − r)/weight⌋,
// and all replicas together admit x.
type share struct {
	limit    limiter.Limit // of all replicas together
	weight   int64
	weighted limiter.Limit // the limit of weighted units: limit, plus what lower ranks may round up
	empty    bool          // there are more replicas than units, and this replica has no unit
}

func shareOf(limit limiter.Limit, p Peers) share {
	weight := min(p.Replicas, limit.Capacity())
	if p.Rank >= weight {
		return share{limit: limit, weight: weight, weighted: limit, empty: true}
	}
	return share{limit: limit, weight: weight, weighted: widened(limit, weight-1-p.Rank)}
}

// widened is the limit with a capacity that is larger by more; it is the limit itself if that exceeds the bounds of limits.
func widened(limit limiter.Limit, more int64) limiter.Limit {
	var wider limiter.Limit
	var err error
	if limit.Traits().Drains {
		wider, err = limit.WithBurst(limit.Burst() + more)
	} else {
		wider, err = limiter.NewLimit(limit.Algorithm(), limit.Units()+more, limit.Window())
	}
	if err != nil {
		return limit
	}
	return wider
}

// charge is c in weighted units. On an empty share every cost exceeds the capacity.
func (s share) charge(c limiter.Charge) limiter.Charge {
	c.Limit = s.weighted
	c.Cost = c.Units() * s.weight
	if s.empty && c.Cost > 0 {
		c.Cost, c.Debt = s.weighted.Capacity()+1, false
	}
	return c
}

// decision converts a decision about s.charge(c) to one about c.
func (s share) decision(c limiter.Charge, d limiter.Decision) limiter.Decision {
	d.Limit = s.limit.Units()
	d.Remaining /= s.weight
	if s.empty {
		d.Remaining = 0
	}
	if d.RetryAfter == limiter.Never && c.Units() <= s.limit.Capacity() {
		d.RetryAfter = tryAgain
	}
	return d
}

// used is the number of weighted units that count now.
func (s share) used(now limiter.Instant, state limiter.State) int64 {
	return s.weighted.Capacity() - state.Decide(now, s.weighted, 0).Remaining
}

// units is what this replica admits of x units that are spent by all replicas together.
func (s share) units(x int64) int64 {
	if s.empty {
		return 0
	}
	return (x + s.weighted.Capacity() - s.limit.Capacity()) / s.weight
}

// Portion is this replica's share of a limit, in units. The portions of all replicas together are the limit.
type Portion struct {
	Units    int64 // of [limiter.Limit.Units]
	Capacity int64 // of [limiter.Limit.Capacity]; Remaining of a decision of [Counters.Peek] is at most this
}

// Portion returns this replica's share of the limit of a charge. Its cost has no meaning.
func (c *Counters) Portion(charge limiter.Charge) Portion {
	c.mu.Lock()
	defer c.mu.Unlock()
	peers := c.peersOf(charge.WholeShare)
	if k, held := c.held[charge.Key]; held && k.reported != nil {
		peers = k.peers
	}
	s := shareOf(charge.Limit, peers)
	return Portion{Units: s.units(charge.Limit.Units()), Capacity: s.units(charge.Limit.Capacity())}
}
