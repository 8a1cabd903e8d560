package local

import "github.com/weir-dev/weir/limiter"

// sample is how many counters are looked at to find one to evict, or, a few at a time, those that are over. Go's map
// iteration begins anywhere, so every counter's turn comes.
const (
	sample = 8
	few    = 3
)

// tidy drops a few counters that are over. The lock is held.
func (c *Counters) tidy(now limiter.Instant) {
	seen := 0
	for key, k := range c.held {
		if k.state.Expires(k.limit) <= now {
			c.drop(key)
		}
		if seen++; seen == few {
			return
		}
	}
}

// evict drops the counter, of some but that at kept, of which the least is spent. It leaves a floor behind, for what is
// spent to be spent if the key comes again. The lock is held.
func (c *Counters) evict(now limiter.Instant, kept string) {
	victim, least, seen := "", uint16(whole), 0
	for key, k := range c.held {
		if key == kept {
			continue
		}
		if part := k.part(now); victim == "" || part < least {
			victim, least = key, part
		}
		if seen++; seen == sample {
			break
		}
	}
	k := c.held[victim]
	if expires := k.state.Expires(k.limit); expires > now {
		c.floor.raise(victim, least, expires, now)
		c.stats.Evicted++
		c.stats.Lost += k.owed(now)
	}
	c.drop(victim)
}

// part of its limit that is spent on a counter.
func (k *counter) part(now limiter.Instant) uint16 {
	capacity := k.limit.Capacity()
	return partOf(capacity-k.state.Decide(now, k.limit, 0).Remaining, capacity)
}

// begin is a counter that is not held, with the least that may have been spent on it before it was evicted.
func (c *Counters) begin(now limiter.Instant, charge limiter.Charge) *counter {
	k := newCounter(charge.Limit)
	if part := c.floor.of(charge.Key, now); part > 0 {
		k.state.Assume(now, charge.Limit, unitsOf(part, charge.Limit.Capacity()), now)
		c.stats.Estimated++
	}
	return k
}
