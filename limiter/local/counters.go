// Package local counts in the place of a store that is unavailable.
//
// While the store is available, [Counters] copy what it decides. While it is not, they admit this replica's share of the units
// that are left. When the store is available again, they return the units that they admitted, so that the store counts them.
// docs/adr/0012 has the reasons.
package local

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-dev/weir/limiter"
)

// sketchPart: one part in four of the memory holds the sketch of evicted counters.
const sketchPart = 4

// settled is how long after the last unit was spent here a counter is one of learned again.
const settled = 10 * time.Second

// Counters estimate what all replicas together have spent. Their memory is bounded. They are safe for concurrent use.
//
// A counter is in learned, until units are spent on it here. Then it is held. The counter of a log is always held.
type Counters struct {
	clock    func() time.Time
	maxBytes int // of held and learned counters
	seed     maphash.Seed

	clockOffset     atomic.Int64 // the store's clock, which can jump, minus ours, an Instant
	unreportedCount atomic.Int64 // len(unreported), to be read without the lock
	learned         *learned
	evicted         *sketch // what was spent on evicted counters

	mu         sync.Mutex
	peers      Peers
	held       map[string]*counter
	order      []*counter          // those of held: an iteration over a map also looks at the slots of what was removed from it
	nextExpiry int                 // index in order of the counter that dropExpired looks at next
	unreported map[string]*counter // those of held with units that are not reported to the store
	bytes      int                 // of those of held
	decisions  uint64              // of the store on held counters
	stats      Stats
}

// Stats are figures about Counters. The 64-bit figures are totals since New.
type Stats struct {
	// Replicas share each limit, including this one.
	Replicas int64
	// Held counters, those that were learned included, and their approximate memory in bytes. The memory for a learned counter whose
	// units no longer count is reused for another, and is included until then.
	Held, Bytes int
	// Unreported is the number of held counters with units that are not reported to the store.
	Unreported int
	// Evicted counters, before their windows ended.
	Evicted int64
	// Estimated decisions: their counters were not held and began with the estimated usage of evicted counters.
	Estimated int64
	// Lost units: they were spent here, on counters that were evicted before the units were reported to the store.
	Lost int64
}

// counter is the estimate of one counter.
type counter struct {
	key   string
	index int // in order
	limit limiter.Limit
	// state is what all replicas have spent: what the store returned, plus what was spent here, weighted.
	state limiter.State
	// reported is state without the units spent here that are not reported to the store; nil if all are reported.
	reported limiter.State
	// peers are those that the units in state are weighted by, as long as reported is not nil.
	peers Peers
	// whole is [limiter.Charge.WholeShare] of the last charge: no other replica spends on the counter.
	whole bool
	// decided is the number of the store's last decision on the counter; 0 if it did not decide since the counter is held.
	decided   uint64
	packs     bool            // see learned.spending
	lastLocal limiter.Instant // by our clock, when units were last spent here and not in the store; 0: never
	returned  limiter.Instant // by our clock, see Returns; 0: not since lastLocal
	bytes     int
}

// New returns empty Counters that take about maxBytes of memory at most and share limits with no other replica. The clock must
// not step.
func New(maxBytes int, clock func() time.Time) *Counters {
	c := &Counters{
		clock: clock, maxBytes: maxBytes - maxBytes/sketchPart, seed: maphash.MakeSeed(), peers: Peers{Replicas: 1},
		held: map[string]*counter{}, unreported: map[string]*counter{}, evicted: newSketch(maxBytes / sketchPart),
	}
	c.learned = newLearned(c.maxBytes/learnedPart, c.evicted)
	return c
}

// lock locks the counters for an operation that may spend units here. Until unlock, and as long as a counter of held can be in learned,
// learned takes no decisions except from a caller with the lock: they belong to the held counter.
func (c *Counters) lock() {
	c.mu.Lock()
	c.learned.spending.Add(1)
}

func (c *Counters) unlock() {
	c.learned.spending.Add(-1)
	c.mu.Unlock()
}

func (c *Counters) hash(key string) uint64 { return max(1, maphash.String(c.seed, key)) }

// Share sets the replicas that limits are shared with from now on. Counters with unreported units keep the replicas that they
// began with.
func (c *Counters) Share(p Peers) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.peers = p
}

// Learn copies what the store has just decided on charges.
func (c *Counters) Learn(charges []limiter.Charge, decisions []limiter.Decision) {
	own := c.ownTime()
	for i := range charges {
		charge, d := &charges[i], &decisions[i]
		c.clockOffset.Store(int64(d.At.Add(-d.Ahead) - own))
		if !charge.Limit.Packs() || !c.learned.learn(c.hash(charge.Key), own, charge.Limit, d, false) {
			c.learnLocked(charge, d, own)
		}
	}
}

// learnLocked learns a decision on a counter that may be held.
func (c *Counters) learnLocked(charge *limiter.Charge, d *limiter.Decision, own limiter.Instant) {
	c.lock()
	defer c.unlock()
	k, held := c.held[charge.Key]
	used := charge.Limit.Capacity() - d.Remaining
	if charge.Limit.Packs() && (!held || k.reported == nil && own.Sub(k.lastLocal) >= settled) {
		if held {
			c.drop(charge.Key)
			c.learned.put(c.hash(charge.Key), own, d.At, charge.Limit, k.state)
		}
		c.dropExpired(d.At)
		c.learned.learn(c.hash(charge.Key), own, charge.Limit, d, true)
		return
	}
	if !held {
		if used == 0 {
			return
		}
		k = newCounter(charge.Limit)
	}
	k.limit, k.decided = charge.Limit, c.nextDecision()
	c.setWhole(k, d.At, charge.WholeShare)
	if k.reported == nil {
		size := k.state.Size()
		assume(k.state, charge, d, used)
		if held && k.state.Size() == size && k.state.Expires(k.limit) > d.At {
			return // as almost always: keep would look up the counter again and change nothing
		}
	} else {
		unreported := k.unreported(d.At)
		assume(k.reported, charge, d, used)
		k.restate(d.At, unreported)
	}
	c.keep(d.At, charge.Key, k)
}

// nextDecision numbers the decisions of the store. The lock is held.
func (c *Counters) nextDecision() uint64 {
	c.decisions++
	return c.decisions
}

// assume makes state what the store has decided: used units count. A coarse log can still count units that the store no longer counts. The units of
// the charge must not take their places: they count for a whole window from now on.
func assume(state limiter.State, charge *limiter.Charge, d *limiter.Decision, used int64) {
	last := newest(charge.Limit, *d)
	if charge.Limit.Traits().Log && d.Allowed && last == d.At { // else the charge was not counted: another one of the request was denied
		state.Spend(d.At, charge.Limit, charge.Units())
	}
	state.Assume(d.At, charge.Limit, used, last)
}

// newest is when the last of the units that count was spent, as far as a decision contains it.
func newest(limit limiter.Limit, d limiter.Decision) limiter.Instant {
	if !limit.Traits().Log {
		return d.At
	}
	return min(d.At, d.At.Add(d.ResetAfter-limit.Window()))
}

func newCounter(limit limiter.Limit) *counter {
	return &counter{limit: limit, state: limit.NewCoarseState()}
}

// share is this replica's share of a counter with unreported units.
func (k *counter) share() share { return shareOf(k.limit, k.peers) }

// Stats returns the current figures.
func (c *Counters) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.stats
	s.Replicas = c.peers.Replicas
	s.Held, s.Bytes, s.Unreported = len(c.held)+c.learned.len(), c.bytes+int(c.learned.bytes.Load()), len(c.unreported)
	s.Evicted = c.evicted.count()
	return s
}

// now is the time of the store's clock, as far as it is known.
func (c *Counters) now() limiter.Instant {
	return c.ownTime() + limiter.Instant(c.clockOffset.Load())
}

// ownTime is the time of our clock. It measures how long something is kept, because the store's clock can jump.
func (c *Counters) ownTime() limiter.Instant { return limiter.At(c.clock()) }

// countsUntil is the second of our clock by which no unit counts of a state that expires at an instant of the store's clock. That the store's
// clock jumped does not prolong it.
func countsUntil(own, now, expires limiter.Instant, limit limiter.Limit) uint32 {
	return secondAfter(own.Add(min(expires.Sub(now), limit.LongestWait())))
}
