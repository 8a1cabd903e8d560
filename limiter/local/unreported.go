package local

import (
	"math"

	"github.com/weir-dev/weir/limiter"
)

// owed is how many units were spent here that still count and that the store has not been told of. What the cluster is
// believed to have spent beyond what the store told is as much as each of the replicas has: so this one has spent its part
// of it.
func (k *counter) owed(now limiter.Instant) int64 {
	if k.told == nil {
		return 0
	}
	s := k.share()
	beyond := s.used(now, k.state) - s.used(now, k.told)
	if beyond <= 0 {
		return 0
	}
	return (beyond + s.weight - 1) / s.weight
}

// Owes says whether there are units that the store has not been told of.
func (c *Counters) HasUnreported() bool { return c.owes.Load() > 0 }

// Debts returns the keys of up to so many counters with units that the store has not been told of.
func (c *Counters) UnreportedKeys(most int) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	keys := make([]string, 0, min(most, len(c.owing)))
	for key := range c.owing {
		if len(keys) == most {
			break
		}
		keys = append(keys, key)
	}
	return keys
}

// Settle takes what is owed on the counter at key: a charge for the store to count, as far as it fits. From then on it is
// taken to be told of it; see [Counters.ReturnUnreported]. False if nothing is owed.
func (c *Counters) TakeUnreported(key string) (limiter.Charge, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k, owes := c.owing[key]
	if !owes {
		return limiter.Charge{}, false
	}
	now := c.now()
	owed := k.owed(now)
	k.told = nil
	c.keep(now, key, k)
	return limiter.Charge{Key: key, Limit: k.limit, Cost: owed}, owed > 0
}

// Owe takes back a Settle: the store has not counted the charge.
func (c *Counters) ReturnUnreported(charge limiter.Charge) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k, held := c.held[charge.Key]
	if !held {
		c.stats.Lost += charge.Cost
		return
	}
	now := c.now()
	k.borrow(c.peers)
	s := k.share()
	k.told.Assume(now, s.held, max(0, s.used(now, k.told)-charge.Cost*s.weight), now)
	c.keep(now, charge.Key, k)
}

// keep holds a counter that has changed, or drops it when it is over. The lock is held.
func (c *Counters) keep(now limiter.Instant, key string, k *counter) {
	if _, held := c.held[key]; !held {
		c.tidy(now)
	}
	if k.state.Expires(k.limit) <= now {
		c.drop(key)
		return
	}
	c.held[key] = k
	if k.told == nil {
		delete(c.owing, key)
	} else {
		c.owing[key] = k
	}
	c.bytes -= k.bytes
	k.bytes = sizeOf(key, k)
	c.bytes += k.bytes
	for c.bytes > c.most && len(c.held) > 1 {
		c.evict(now, key)
	}
	c.owes.Store(int64(len(c.owing)))
}

// drop forgets a counter. The lock is held.
func (c *Counters) drop(key string) {
	if k, held := c.held[key]; held {
		c.bytes -= k.bytes
		delete(c.held, key)
		delete(c.owing, key)
		c.owes.Store(int64(len(c.owing)))
	}
}

// sizeOf is about how many bytes a counter takes, its places in the maps included.
func sizeOf(key string, k *counter) int {
	const fixed = 240
	n := fixed + len(key) + k.state.Size()
	if k.told != nil {
		n += k.told.Size()
	}
	return min(n, math.MaxInt32)
}
