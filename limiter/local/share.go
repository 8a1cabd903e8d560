package local

import (
	"time"

	"github.com/weir-dev/weir/limiter"
)

// tryAgain is when to come back to a replica that can never admit what the limit as a whole can: the store may be back by
// then, or another replica be asked.
const tryAgain = time.Second

// Peers are the replicas that share every limit while none of them can ask the store.
type Peers struct {
	// Replicas is how many they are, this one included.
	Replicas int64
	// Rank is the place of this one among them, from 0. What does not divide evenly falls to the lowest.
	Rank int64
}

// share is the part of a limit that is this replica's. It takes the others to spend as much as itself: each of its units
// counts for weight units of the cluster's, its own and one of each other replica. Of x units that the cluster has left,
// the replica of rank r so admits ⌊(x + weight − 1 − r)/weight⌋, and all of them together x.
type share struct {
	limit  limiter.Limit // of the cluster
	weight int64
	held   limiter.Limit // what weighted units are held to: limit, wider by what lower ranks may round up
	none   bool          // there are more replicas than units: nothing is this one's
}

func shareOf(limit limiter.Limit, p Peers) share {
	weight := min(p.Replicas, limit.Capacity())
	if p.Rank >= weight {
		return share{limit: limit, weight: weight, held: limit, none: true}
	}
	return share{limit: limit, weight: weight, held: widened(limit, weight-1-p.Rank)}
}

// widened is the limit with so much more capacity; the limit itself at the upper bounds of limits.
func widened(limit limiter.Limit, more int64) limiter.Limit {
	var wider limiter.Limit
	var err error
	switch limit.Algorithm() {
	case limiter.TokenBucket, limiter.LeakyBucket:
		wider, err = limit.WithBurst(limit.Burst() + more)
	default:
		wider, err = limiter.NewLimit(limit.Algorithm(), limit.Units()+more, limit.Window())
	}
	if err != nil {
		return limit
	}
	return wider
}

// charge is c as this replica's state is charged with it. A share of nothing is asked for more than there can be.
func (s share) charge(c limiter.Charge) limiter.Charge {
	c.Limit = s.held
	c.Cost = c.Units() * s.weight
	if s.none && c.Cost > 0 {
		c.Cost = s.held.Capacity() + 1
	}
	return c
}

// decision is what the replica tells of a decision about s.charge(c).
func (s share) decision(c limiter.Charge, d limiter.Decision) limiter.Decision {
	d.Limit = s.limit.Units()
	d.Remaining /= s.weight
	if s.none {
		d.Remaining = 0
	}
	if d.RetryAfter == limiter.Never && c.Units() <= s.limit.Capacity() {
		d.RetryAfter = tryAgain
	}
	return d
}

// used is how many units of the cluster's count now.
func (s share) used(now limiter.Instant, state limiter.State) int64 {
	return s.held.Capacity() - state.Decide(now, s.held, 0).Remaining
}
