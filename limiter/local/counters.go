// Package local decides in the stead of a store that is away. While the store answers, Counters follow what it tells of
// each counter; when it does not, they admit this replica's share of what is left; when it is back, they tell what they
// have admitted, to be counted there. docs/adr/0012 has the reasons.
package local

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-dev/weir/limiter"
)

// floorPart of the memory is for what was spent on counters that gave way to others.
const floorPart = 4

// Counters are what one replica believes that the cluster has spent. They are bounded in memory and safe for concurrent
// use.
type Counters struct {
	clock func() time.Time
	most  int // bytes

	owes atomic.Int64 // len(owing), for who only asks whether there are any

	mu    sync.Mutex
	ahead limiter.Instant // of the store's clock before ours
	peers Peers
	held  map[string]*counter
	owing map[string]*counter // those of held with units that the store has not been told of
	bytes int
	floor floor
	stats Stats
}

// Stats are figures of Counters since they began.
type Stats struct {
	// Held counters, and about how many Bytes they take.
	Held, Bytes int
	// Unreported is how many of them have units that the store has not been told of.
	Unreported int
	// Evicted counters gave way to others before they were over.
	Evicted int64
	// Estimated decisions were made on counters that, for that, began with what evicted ones had spent.
	Estimated int64
	// Lost units were spent here on counters that were evicted before the store could be told.
	Lost int64
}

// counter is what is believed of one.
type counter struct {
	limit limiter.Limit
	// state is what the cluster has spent: what the store told, and what was spent here, weighted.
	state limiter.State
	// told is state without what was spent here and the store has not been told of; nil if that is nothing.
	told limiter.State
	// peers that state is weighted by as long as told is not nil.
	peers Peers
	alone limiter.Instant // when units were spent last that the store did not count
	bytes int
}

// New returns empty Counters that take about most bytes at the most, read the time from clock, which must not step, and
// share limits with nobody.
func New(most int, clock func() time.Time) *Counters {
	return &Counters{
		clock: clock, most: most - most/floorPart, peers: Peers{Replicas: 1},
		held: map[string]*counter{}, owing: map[string]*counter{}, floor: newFloor(most / floorPart),
	}
}

// Share says with whom limits are shared from now on. Counters that owe go on as they began.
func (c *Counters) Share(p Peers) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.peers = p
}

// Learn takes note of what the store has just decided on charges.
func (c *Counters) Learn(charges []limiter.Charge, decisions []limiter.Decision) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := limiter.At(c.clock())
	for i := range charges {
		c.ahead = decisions[i].At - now
		c.learn(&charges[i], decisions[i])
	}
}

func (c *Counters) learn(charge *limiter.Charge, d limiter.Decision) {
	used := charge.Limit.Capacity() - d.Remaining
	k, held := c.held[charge.Key]
	if !held {
		if used == 0 {
			return
		}
		k = newCounter(charge.Limit)
	}
	k.limit = charge.Limit
	if k.told == nil {
		k.state.Assume(d.At, k.limit, used, newest(k.limit, d))
	} else {
		s := k.share()
		owed := k.owed(d.At)
		k.told.Assume(d.At, k.limit, used, newest(k.limit, d))
		k.state = k.told.Clone()
		k.state.Spend(d.At, s.held, owed*s.weight)
	}
	c.keep(d.At, charge.Key, k)
}

// newest is when the last of the units that count was spent, as far as a decision tells.
func newest(limit limiter.Limit, d limiter.Decision) limiter.Instant {
	if limit.Algorithm() != limiter.SlidingWindowLog || d.ResetAfter == 0 {
		return d.At
	}
	return min(d.At, d.At.Add(d.ResetAfter-limit.Window()))
}

func newCounter(limit limiter.Limit) *counter {
	return &counter{limit: limit, state: limit.NewCoarseState()}
}

// share is that of a counter that owes.
func (k *counter) share() share { return shareOf(k.limit, k.peers) }

// Stats returns the figures as they are.
func (c *Counters) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.stats
	s.Held, s.Bytes, s.Unreported = len(c.held), c.bytes, len(c.owing)
	return s
}

// now is the store's time, as far as it is known. The lock is held.
func (c *Counters) now() limiter.Instant { return limiter.At(c.clock()) + c.ahead }
