package local

import (
	"math/rand/v2"

	"github.com/weir-dev/weir/go/internal/limiter"
)

// To find a counter to evict, evict compares evictSample random ones. To find expired counters, dropExpired looks at the next
// expireSample of them.
const (
	evictSample  = 8
	expireSample = 3
)

// dropExpired drops a few counters whose units no longer count. The lock is held.
func (c *Counters) dropExpired(now limiter.Instant) {
	for range min(expireSample, len(c.order)) {
		if c.nextExpiry >= len(c.order) {
			c.nextExpiry = 0
		}
		if k := c.order[c.nextExpiry]; k.state.Expires(k.limit) <= now {
			c.drop(k.key)
		} else {
			c.nextExpiry++
		}
	}
}

// evict drops the counter with the smallest spent part of its limit in a sample of the counters, never the one at kept. It
// records that part in the sketch, so that the key begins with it if it is counted again. The lock is held.
func (c *Counters) evict(now limiter.Instant, kept string) {
	var victim *counter
	least := uint16(whole)
	for range evictSample {
		k := c.order[rand.IntN(len(c.order))]
		if k.key == kept { // the next one: there are at least two
			k = c.order[(k.index+1)%len(c.order)]
		}
		if part := k.part(now); victim == nil || part < least {
			victim, least = k, part
		}
	}
	if expires := victim.state.Expires(victim.limit); expires > now {
		own := c.ownTime()
		c.evicted.raise(c.hash(victim.key), least, countsUntil(own, now, expires, victim.limit), own)
		c.stats.Lost += victim.unreported(now)
	}
	c.drop(victim.key)
}

// part is the part of its limit that is spent on a counter.
func (k *counter) part(now limiter.Instant) uint16 {
	capacity := k.limit.Capacity()
	return partOf(capacity-k.state.Decide(now, k.limit, 0).Remaining, capacity)
}

// begin returns a counter for a key that is not held. It begins with what the store decided on it last, or with the units that may have
// been spent on it before its counter was evicted. The lock is held.
func (c *Counters) begin(now limiter.Instant, charge limiter.Charge) *counter {
	if k, learned := c.fromLearned(charge.Key, charge.Limit); learned {
		return k
	}
	k := newCounter(charge.Limit)
	if part := c.evicted.estimate(c.hash(charge.Key), c.ownTime()); part > 0 {
		k.state.Assume(now, charge.Limit, unitsOf(part, charge.Limit.Capacity()), now)
		c.stats.Estimated++
	}
	return k
}

// fromLearned returns a counter for a key that is not held, with what the store decided on it last. It returns false if nothing is known.
func (c *Counters) fromLearned(key string, limit limiter.Limit) (*counter, bool) {
	if !limit.Packs() {
		return nil, false
	}
	state, ok := c.learned.state(c.hash(key), limit)
	if !ok {
		return nil, false
	}
	return &counter{limit: limit, state: state, decided: c.nextDecision()}, true
}
