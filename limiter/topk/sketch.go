package topk

import (
	"hash/maphash"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// Period is the length of a period. A list covers the current period and the one before it.
	Period = time.Minute
	// summaries · counters is the number of identifiers that a Sketch counts in each period.
	summaries = 256
	counters  = 16 // the hashes of a summary fill two cache lines
	// attempts to update a summary that another processor updates. An update takes some tens of nanoseconds.
	attempts = 4
)

// Sketch counts the requests of identifiers, approximately. It is safe for concurrent use.
type Sketch struct {
	seed  maphash.Seed // secret: clients choose identifiers, and must not be able to choose the summary
	began time.Time
	all   [summaries]summary
}

// summary counts the identifiers with the same part of the hash.
type summary struct {
	busy    sync.Mutex
	period  int64         // that Add has seen last
	missed  atomic.Int64  // requests that found the summary busy, and are not yet in a generation
	periods [2]generation // the current and the previous period, by the parity of their numbers
}

// generation has the counts of one period. A counter is free if its count is 0.
type generation struct {
	hashes [counters]uint64
	counts [counters]int64
	errors [counters]int64
	names  [counters]name
	missed int64
}

// New returns an empty Sketch. The argument now is the time by the clock of all later calls, which must not step back.
func New(now time.Time) *Sketch { return &Sketch{seed: maphash.MakeSeed(), began: now} }

// Add counts a request. It neither waits nor allocates: if other processors update the same summary, it is only added to the error.
func (s *Sketch) Add(policy, identifier string, now time.Time) {
	hash := s.hash(policy, identifier)
	of := &s.all[hash>>(64-bits.Len(summaries-1))]
	for range attempts {
		if of.busy.TryLock() {
			of.current(s.periodOf(now)).add(hash, policy, identifier)
			of.busy.Unlock()
			return
		}
	}
	of.missed.Add(1)
}

// hash is never 0.
func (s *Sketch) hash(policy, identifier string) uint64 {
	return bits.RotateLeft64(maphash.String(s.seed, policy), 31)*0x9E3779B97F4A7C15 ^ maphash.String(s.seed, identifier) | 1
}

func (s *Sketch) periodOf(now time.Time) int64 { return int64(now.Sub(s.began) / Period) }

// current returns the counts of a period, and clears those that are older than the one before it. The lock is held.
func (s *summary) current(period int64) *generation {
	if period > s.period {
		s.periods[period&1].clear()
		if period > s.period+1 {
			s.periods[(period+1)&1].clear()
		}
		s.period = period
	}
	g := &s.periods[s.period&1]
	if s.missed.Load() > 0 {
		g.missed += s.missed.Swap(0)
	}
	return g
}

func (g *generation) add(hash uint64, policy, identifier string) {
	least := 0
	for i, h := range &g.hashes {
		if h == hash {
			g.counts[i]++
			return
		}
		if g.counts[i] < g.counts[least] {
			least = i
		}
	}
	g.errors[least] = g.counts[least]
	g.counts[least]++
	g.hashes[least] = hash
	g.names[least].set(policy, identifier)
}

// bound returns the largest count that an identifier without a counter can have: 0 while a counter is free.
func (g *generation) bound() int64 {
	least := g.counts[0]
	for _, count := range &g.counts {
		least = min(least, count)
	}
	return least + g.missed
}

func (g *generation) clear() { *g = generation{} }
