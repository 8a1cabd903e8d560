package local

import (
	"sync"
	"sync/atomic"

	"github.com/weir-dev/weir/go/internal/limiter"
)

const (
	// shards of learned have a lock each.
	shards = 64
	// probes is the number of slots in which a key can be, from the one that its hash selects.
	probes = 16
	// slotBytes is the size of a slot and its hash.
	slotBytes = 48
	// learnedPart: at most one part in two of the memory of counters holds learned ones.
	learnedPart = 2
)

// learned holds what the store decided on counters on which nothing was spent here, which is the case of all counters while the store is
// available. It is written for each decision. So it takes no common lock, allocates only to grow, and contains no pointers that a garbage
// collection would have to follow. A log is never in it.
//
// A key is represented by its hash. If two keys have the same, which is improbable among 2^64, they share what is learned.
type learned struct {
	slots   int // of a shard, at most
	evicted *sketch
	// spending is not 0 while units may be spent here, see [Counters.lock]. Then only a caller with its lock may learn.
	spending atomic.Int64
	bytes    atomic.Int64
	shards   [shards]shard
}

// shard is a hash table with linear probing. Slots are never emptied: one whose units no longer count is free.
type shard struct {
	mu     sync.Mutex
	hashes []uint64 // 0: never used. They are apart from slots because a search looks at several of them
	slots  []slot
	held   int      // slots that are not free, or whose units no longer count
	_      [64]byte // keeps the locks of two shards in separate cache lines
}

type slot struct {
	state     limiter.Packed
	expiresAt uint32 // seconds since the epoch by our clock, after which no unit counts; 0: free
	part      uint16 // of the limit that is spent, as in a cell
	algorithm uint8  // its number in limiter.Traits
}

func newLearned(maxBytes int, evicted *sketch) *learned {
	l := &learned{slots: probes, evicted: evicted}
	for 2*l.slots*slotBytes*shards <= maxBytes {
		l.slots *= 2
	}
	return l
}

func (l *learned) shard(hash uint64) *shard { return &l.shards[hash>>(64-6)] }

// learn records the store's decision d under limit at the time own of our clock. Unless locked, which is whether the caller has the lock of the
// Counters, it does nothing and returns false while units may be spent here.
func (l *learned) learn(hash uint64, own limiter.Instant, limit limiter.Limit, d *limiter.Decision, locked bool) bool {
	used := limit.Capacity() - d.Remaining
	s := l.shard(hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !locked && l.spending.Load() != 0 {
		return false
	}
	i := s.find(hash)
	if i < 0 {
		if used == 0 {
			return true
		}
		i = l.place(s, hash, own)
	}
	entry, algorithm := s.slots[i], limit.Traits().Number
	if entry.algorithm != algorithm {
		entry = slot{algorithm: algorithm}
	}
	state, expires := entry.state.Assume(d.At, limit, used)
	entry.state, entry.part, entry.expiresAt = state, partOf(used, limit.Capacity()), 0
	if expires > d.At {
		entry.expiresAt = countsUntil(own, d.At.Add(-d.Ahead), expires, limit)
	}
	s.set(i, hash, entry)
	return true
}

// put records the state of a counter at an instant of the store's clock and one of ours.
func (l *learned) put(hash uint64, own, storeNow limiter.Instant, limit limiter.Limit, state limiter.State) {
	s := l.shard(hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.find(hash)
	if i < 0 {
		i = l.place(s, hash, own)
	}
	used := limit.Capacity() - state.Decide(storeNow, limit, 0).Remaining
	s.set(i, hash, slot{
		state: limiter.Pack(state), algorithm: limit.Traits().Number, part: partOf(used, limit.Capacity()),
		expiresAt: countsUntil(own, storeNow, state.Expires(limit), limit),
	})
}

// set replaces slot i.
func (s *shard) set(i int, hash uint64, entry slot) {
	if s.slots[i].expiresAt > 0 {
		s.held--
	}
	if entry.expiresAt > 0 {
		s.held++
	}
	s.hashes[i], s.slots[i] = hash, entry
}

// find returns the index of a hash, -1 if it is absent.
func (s *shard) find(hash uint64) int {
	mask := uint64(len(s.hashes) - 1)
	if len(s.hashes) == 0 {
		return -1
	}
	for i := range uint64(probes) {
		switch index := (hash + i) & mask; s.hashes[index] {
		case hash:
			return int(index)
		case 0:
			return -1
		}
	}
	return -1
}

// place returns a free slot for a hash that is absent. It makes the shard larger, or evicts the counter with the smallest part.
func (l *learned) place(s *shard, hash uint64, own limiter.Instant) int {
	for {
		if i := s.free(hash, seconds(own)); i >= 0 {
			return i
		}
		if len(s.hashes) >= l.slots {
			break
		}
		l.grow(s, own)
	}
	mask, victim := uint64(len(s.hashes)-1), hash&uint64(len(s.hashes)-1)
	for i := range uint64(probes) {
		if index := (hash + i) & mask; s.slots[index].part < s.slots[victim].part {
			victim = index
		}
	}
	l.evicted.raise(s.hashes[victim], s.slots[victim].part, s.slots[victim].expiresAt, own)
	return int(victim)
}

// free returns the index of a free slot for a hash that is absent, or -1.
func (s *shard) free(hash uint64, now uint32) int {
	if len(s.hashes) == 0 {
		return -1
	}
	mask := uint64(len(s.hashes) - 1)
	for i := range uint64(probes) {
		index := (hash + i) & mask
		if s.slots[index].expiresAt <= now {
			return int(index)
		}
	}
	return -1
}

// grow doubles the slots of a shard, and drops the counters whose units no longer count.
func (l *learned) grow(s *shard, own limiter.Instant) {
	hashes, slots := s.hashes, s.slots
	n := max(probes, 2*len(hashes))
	s.hashes, s.slots, s.held = make([]uint64, n), make([]slot, n), 0
	l.bytes.Add(int64(n-len(hashes)) * slotBytes)
	for i, hash := range hashes {
		if slots[i].expiresAt <= seconds(own) {
			continue
		}
		s.set(l.place(s, hash, own), hash, slots[i])
	}
}

// state returns what is learned about a counter. It returns false if nothing is.
func (l *learned) state(hash uint64, limit limiter.Limit) (limiter.State, bool) {
	s := l.shard(hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.find(hash)
	if i < 0 || s.slots[i].expiresAt == 0 || s.slots[i].algorithm != limit.Traits().Number {
		return nil, false
	}
	return s.slots[i].state.Unpack(limit), true
}

// forget drops what is learned about a counter.
func (l *learned) forget(hash uint64) {
	s := l.shard(hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := s.find(hash); i >= 0 {
		s.set(i, hash, slot{})
	}
}

// len is the number of learned counters, including those whose units no longer count and whose slot was not needed.
func (l *learned) len() int {
	n := 0
	for i := range l.shards {
		s := &l.shards[i]
		s.mu.Lock()
		n += s.held
		s.mu.Unlock()
	}
	return n
}
