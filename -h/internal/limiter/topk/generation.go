package topk

import "sync/atomic"

// generation has the counts of one period. All fields but hashes and states are protected by the lock of the summary.
type generation struct {
	hashes [counters]atomic.Uint64 // 0 while a counter is free or changes its identifier
	states [counters]atomic.Uint64 // version and count
	errors [counters]int64
	names  [counters]name
	// evicted is the largest count that a counter had when it changed its identifier.
	evicted int64
	missed  int64
}

// A state has the count of a counter in its lower bits, and the number of changes of its identifier above them. So an increment that began
// before such a change fails.
const (
	version   = 1 << 40
	countBits = version - 1
)

// increment counts a request of an identifier that has a counter, without the lock. It tries again only if another processor has counted.
func (g *generation) increment(hash uint64) bool {
	for i := range g.hashes {
		for g.hashes[i].Load() == hash {
			state := g.states[i].Load()
			if g.hashes[i].Load() != hash { // else the state is that of the identifier
				break
			}
			if g.states[i].CompareAndSwap(state, state+1) {
				return true
			}
		}
	}
	return false
}

// add counts a request. The lock is held, so that no identifier changes.
func (g *generation) add(hash uint64, policy, identifier string) {
	least, fewest := 0, uint64(version)
	for i := range g.hashes {
		if g.hashes[i].Load() == hash {
			g.states[i].Add(1)
			return
		}
		if count := g.states[i].Load() & countBits; count < fewest {
			least, fewest = i, count
		}
	}
	state := g.take(least)
	// The counter can have grown since it had the least count: then others have less than what an earlier identifier had.
	g.evicted = max(g.evicted, int64(state&countBits))
	g.errors[least] = g.evicted
	g.names[least].set(policy, identifier)
	g.states[least].Store(state&^countBits | uint64(g.evicted+1))
	g.hashes[least].Store(hash)
}

// take ends the increments of a counter, and returns its state.
func (g *generation) take(i int) (state uint64) {
	g.hashes[i].Store(0)
	return g.states[i].Add(version)
}

func (g *generation) clear() {
	for i := range g.hashes {
		g.states[i].Store(g.take(i) &^ countBits)
	}
	g.evicted, g.missed = 0, 0
}

// copied is a copy of the counts of a period. A counter is free if its count is 0.
type copied struct {
	hashes [counters]uint64
	counts [counters]int64
	errors [counters]int64
	names  [counters]name
	missed int64
	// bound is the largest count that an identifier without a counter can have.
	bound int64
}

func (g *generation) copyTo(c *copied) {
	for i := range g.hashes {
		c.hashes[i], c.counts[i] = g.hashes[i].Load(), int64(g.states[i].Load()&countBits)
	}
	c.errors, c.names, c.missed, c.bound = g.errors, g.names, g.missed, g.evicted+g.missed
}
