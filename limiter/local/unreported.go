package local

import (
	"math"

	"github.com/weir-dev/weir/limiter"
)

// unreported is the number of units that were spent here, still count, and are not reported to the store. The state assumes
// that every replica spends as much as this one, so this replica spent the weight-th part of what state has and reported has
// not.
func (k *counter) unreported(now limiter.Instant) int64 {
	if k.reported == nil {
		return 0
	}
	s := k.share()
	beyond := max(0, s.used(now, k.state)-s.used(now, k.reported))
	return (beyond + s.weight - 1) / s.weight
}

// HasUnreported reports whether there are units that are not reported to the store.
func (c *Counters) HasUnreported() bool { return c.unreportedCount.Load() > 0 }

// UnreportedKeys returns the keys of at most n counters with units that are not reported to the store.
func (c *Counters) UnreportedKeys(n int) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	keys := make([]string, 0, min(n, len(c.unreported)))
	for key := range c.unreported {
		if len(keys) == n {
			break
		}
		keys = append(keys, key)
	}
	return keys
}

// Report is the unreported units of a counter as a charge.
type Report struct {
	limiter.Charge

	decisions uint64 // of the store when it was taken
}

// TakeUnreported returns the unreported units of the counter at key, and marks them as reported. If the store does not count them, call
// [Counters.ReturnUnreported]. The bool is false if there are no such units.
func (c *Counters) TakeUnreported(key string) (Report, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k, has := c.unreported[key]
	if !has {
		return Report{}, false
	}
	now := c.now()
	units := k.unreported(now)
	k.reported = nil
	c.keep(now, key, k)
	return Report{limiter.Charge{Key: key, Limit: k.limit, Cost: units, WholeShare: k.whole}, c.decisions}, units > 0
}

// ReturnUnreported reverts a TakeUnreported, because the store has not counted the units.
func (c *Counters) ReturnUnreported(r Report) {
	c.lock()
	defer c.unlock()
	k, ok := c.held[r.Key]
	if !ok {
		k, ok = c.fromLearned(r.Key, r.Limit)
	}
	if !ok {
		c.stats.Lost += r.Cost
		return
	}
	now := c.now()
	c.setWhole(k, now, r.WholeShare)
	k.beginUnreported(c.peersOf(k.whole))
	if s := k.share(); k.decided > r.decisions { // what the store decided since does not contain the units
		k.state.Spend(now, s.weighted, r.Cost*s.weight)
	} else {
		k.reported.Assume(now, s.weighted, max(0, s.used(now, k.reported)-r.Cost*s.weight), now)
	}
	c.keep(now, r.Key, k)
}

// keep holds a counter that has changed, or drops it when its units no longer count. The lock is held.
func (c *Counters) keep(now limiter.Instant, key string, k *counter) {
	_, held := c.held[key]
	if !held {
		c.dropExpired(now)
	}
	if k.state.Expires(k.limit) <= now {
		c.learned.forget(c.hash(key)) // k can be a copy of a learned counter
		c.drop(key)
		return
	}
	if !held {
		k.key, k.index = key, len(c.order)
		c.held[key] = k
		c.order = append(c.order, k)
		if k.packs = k.limit.Packs(); k.packs {
			c.learned.spending.Add(1)
			c.learned.forget(c.hash(key))
		}
	}
	if k.reported == nil {
		delete(c.unreported, key)
	} else {
		c.unreported[key] = k
	}
	c.bytes -= k.bytes
	k.bytes = sizeOf(key, k)
	c.bytes += k.bytes
	for c.bytes+int(c.learned.bytes.Load()) > c.maxBytes && len(c.held) > 1 {
		c.evict(now, key)
	}
	c.unreportedCount.Store(int64(len(c.unreported)))
}

// drop removes a counter. The lock is held.
func (c *Counters) drop(key string) {
	if k, held := c.held[key]; held {
		c.bytes -= k.bytes
		delete(c.held, key)
		last := len(c.order) - 1
		c.order[k.index] = c.order[last]
		c.order[k.index].index = k.index
		c.order[last] = nil
		c.order = c.order[:last]
		delete(c.unreported, key)
		c.unreportedCount.Store(int64(len(c.unreported)))
		if k.packs {
			c.learned.spending.Add(-1)
		}
	}
}

// sizeOf is the approximate memory of a counter in bytes, including its map entries.
func sizeOf(key string, k *counter) int {
	const fixed = 280
	n := fixed + len(key) + k.state.Size()
	if k.reported != nil {
		n += k.reported.Size()
	}
	return min(n, math.MaxInt32)
}
