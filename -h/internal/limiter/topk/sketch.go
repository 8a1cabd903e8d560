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
	seed      maphash.Seed // secret: clients choose identifiers, and must not be able to choose the summary
	began     time.Time
	summaries [summaries]summary
}

// summary counts the identifiers with the same part of the hash.
type summary struct {
	busy    sync.Mutex    // is held to give a counter to an identifier, to begin a period and to read
	period  atomic.Int64  // that Add has seen last
	missed  atomic.Int64  // requests without a counter that found the summary busy, and are not yet in a generation
	periods [2]generation // the current and the previous period, by the parity of their numbers
}

// New returns an empty Sketch. The argument now is the time by the clock of all later calls, which must not step back.
func New(now time.Time) *Sketch { return &Sketch{seed: maphash.MakeSeed(), began: now} }

// Add counts a request. It neither waits nor allocates: if the identifier has no counter, and another processor updates the same summary, the
// request is only added to the error.
func (s *Sketch) Add(policy, identifier string, now time.Time) {
	hash, period := s.hash(policy, identifier), s.periodOf(now)
	summary := &s.summaries[summaryOf(hash)]
	if summary.period.Load() == period && summary.periods[period&1].increment(hash) {
		return
	}
	for range attempts {
		if summary.busy.TryLock() {
			summary.current(period).add(hash, policy, identifier)
			summary.busy.Unlock()
			return
		}
	}
	summary.missed.Add(1)
}

func summaryOf(hash uint64) uint64 { return hash >> (64 - bits.Len(summaries-1)) }

// hash is never 0.
func (s *Sketch) hash(policy, identifier string) uint64 {
	return bits.RotateLeft64(maphash.String(s.seed, policy), 31)*0x9E3779B97F4A7C15 ^ maphash.String(s.seed, identifier) | 1
}

func (s *Sketch) periodOf(now time.Time) int64 { return int64(now.Sub(s.began) / Period) }

// current returns the counts of a period, and clears those that are older than the one before it. The lock is held.
func (s *summary) current(period int64) *generation {
	if last := s.period.Load(); period > last {
		s.periods[period&1].clear()
		if period > last+1 {
			s.periods[(period+1)&1].clear()
		}
		s.period.Store(period)
	}
	g := &s.periods[s.period.Load()&1]
	if s.missed.Load() > 0 {
		g.missed += s.missed.Swap(0)
	}
	return g
}
