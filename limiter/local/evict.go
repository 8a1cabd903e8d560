package local

import "github.com/weir-dev/weir/limiter"

// To find a counter to evict, evict compares evictSample of them. To find expired counters, dropExpired looks at expireSample
// of them. Go's map iteration begins at a random entry, so every counter is looked at sooner or later.
const (
	evictSample  = 8
	expireSample = 3
)

// dropExpired drops a few counters whose units no longer count. The lock is held.
func (c *Counters) dropExpired(now limiter.Instant) {
	seen := 0
	for key, k := range c.held {
		if k.state.Expires(k.limit) <= now {
			c.drop(key)
		}
		if seen++; seen == expireSample {
			return
		}
	}
}

// evict drops the counter with the smallest spent part of its limit in a sample of the counters, never the one at kept. It
// records that part in the sketch, so that the key begins with it if it is counted again. The lock is held.
func (c *Counters) evict(now limiter.Instant, kept string) {
	victim, least, seen := "", uint16(whole), 0
	for key, k := range c.held {
		if key == kept {
			continue
		}
		if part := k.part(now); victim == "" || part < least {
			victim, least = key, part
		}
		if seen++; seen == evictSample {
			break
		}
	}
	k := c.held[victim]
	if expires := k.state.Expires(k.limit); expires > now {
		c.evicted.raise(victim, least, expires, now)
		c.stats.Evicted++
		c.stats.Lost += k.unreported(now)
	}
	c.drop(victim)
}

// part is the part of its limit that is spent on a counter.
func (k *counter) part(now limiter.Instant) uint16 {
	capacity := k.limit.Capacity()
	return partOf(capacity-k.state.Decide(now, k.limit, 0).Remaining, capacity)
}

// begin returns a counter for a key that is not held. It begins with the units that may have been spent on the key before its
// counter was evicted. The lock is held.
func (c *Counters) begin(now limiter.Instant, charge limiter.Charge) *counter {
	k := newCounter(charge.Limit)
	if part := c.evicted.estimate(charge.Key, now); part > 0 {
		k.state.Assume(now, charge.Limit, unitsOf(part, charge.Limit.Capacity()), now)
		c.stats.Estimated++
	}
	return k
}
