package memstore

import (
	"math/rand/v2"
	"slices"

	"github.com/weir-dev/weir/limiter"
)

const (
	// sweepEvery is the number of spends between two sweeps, which remove expired counters.
	sweepEvery = 64
	// sweepSize is the number of counters that a sweep checks.
	sweepSize = 256
	// evictSample is the number of counters that are compared to find one to evict.
	evictSample = 8
	// counterBytes is the approximate memory of a counter in a table, without its key and its state.
	counterBytes = 208
)

// table is a map of counters whose counters are also in a slice without gaps: a map keeps the slots of what was removed from
// it, and an iteration looks at all of them.
type table struct {
	indexes map[string]int // in dense
	dense   []counter
	next    int // index of the counter that the next sweep checks first
	bytes   int
}

type counter struct {
	key     string
	limit   limiter.Limit
	state   limiter.State
	expires limiter.Instant
	bytes   int
}

func newTable() table { return table{indexes: map[string]int{}} }

func (t *table) get(key string) (*counter, bool) {
	i, ok := t.indexes[key]
	if !ok {
		return nil, false
	}
	return &t.dense[i], true
}

// put stores the counter at key, or its changes.
func (t *table) put(key string, limit limiter.Limit, state limiter.State) {
	i, ok := t.indexes[key]
	if !ok {
		i = -1
	}
	t.putAt(i, key, limit, state)
}

// putAt is put for a counter at an index, which is -1 for a new counter.
func (t *table) putAt(i int, key string, limit limiter.Limit, state limiter.State) {
	if i < 0 {
		i = len(t.dense)
		t.indexes[key] = i
		t.dense = append(t.dense, counter{key: key})
	}
	c := &t.dense[i]
	t.bytes -= c.bytes
	c.limit, c.state, c.expires = limit, state, state.Expires(limit)
	c.bytes = counterBytes + len(key) + state.Size()
	t.bytes += c.bytes
}

func (t *table) remove(key string) {
	if i, ok := t.indexes[key]; ok {
		t.removeAt(i)
	}
}

// removeAt moves the last counter to the place of the removed one.
func (t *table) removeAt(i int) {
	last := len(t.dense) - 1
	t.bytes -= t.dense[i].bytes
	delete(t.indexes, t.dense[i].key)
	if i != last {
		t.dense[i] = t.dense[last]
		t.indexes[t.dense[i].key] = i
	}
	t.dense[last] = counter{}
	t.dense = t.dense[:last]
	if last == 0 {
		*t = newTable() // frees the slots
	}
}

// sweep removes expired counters. Every sweepEvery spends it checks the next sweepSize counters.
func (s *Store) sweep(now limiter.Instant) {
	s.spends++
	if s.spends%sweepEvery != 0 {
		return
	}
	t := &s.counters
	for range min(sweepSize, len(t.dense)) {
		if t.next >= len(t.dense) {
			t.next = 0
		}
		if len(t.dense) == 0 {
			return
		}
		if t.dense[t.next].expires <= now {
			t.removeAt(t.next)
		} else {
			t.next++
		}
	}
}

// evict evicts counters, but not those of the current charges, until the rest fits into the memory.
func (s *Store) evict(now limiter.Instant, current []limiter.Charge) {
	for s.counters.bytes > s.maxBytes {
		victim := s.counters.leastSpent(now, current)
		if victim < 0 {
			return
		}
		if s.counters.dense[victim].expires > now {
			s.evicted++
		}
		s.counters.removeAt(victim)
	}
}

// leastSpent returns the index of the counter with the smallest spent part of its limit, in a random sample; -1 if the sample
// has only counters of the current charges.
func (t *table) leastSpent(now limiter.Instant, current []limiter.Charge) int {
	victim, least := -1, 0.0
	for i := range min(evictSample, len(t.dense)) {
		candidate := i
		if len(t.dense) > evictSample {
			candidate = rand.IntN(len(t.dense))
		}
		c := &t.dense[candidate]
		if slices.ContainsFunc(current, func(charge limiter.Charge) bool { return charge.Key == c.key }) {
			continue
		}
		capacity := c.limit.Capacity()
		spent := float64(capacity-c.state.Decide(now, c.limit, 0).Remaining) / float64(capacity)
		if victim < 0 || spent < least {
			victim, least = candidate, spent
		}
	}
	return victim
}
