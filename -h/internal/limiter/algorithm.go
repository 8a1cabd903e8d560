package limiter

import (
	"slices"
	"time"
)

// Algorithm is the name of a way to count units. The values are those of the policy API.
type Algorithm string

// DefaultAlgorithm is the algorithm of a policy without one.
const DefaultAlgorithm = SlidingWindowCounter

// Traits are what the rest of Weir asks about an algorithm, instead of its name. Each algorithm has one row of them, in the file of its state.
// They are the same for all limits, and must not be changed. Those of an unknown algorithm are zero.
type Traits struct {
	// Name of the algorithm; empty if it is unknown.
	Name Algorithm
	// Number identifies the algorithm in this process, from 1.
	Number uint8

	// MaxUnits and MaxWindow are the bounds of limits, see [NewLimit].
	MaxUnits  int64
	MaxWindow time.Duration

	// Aligned windows begin at multiples of their length since the epoch.
	Aligned bool
	// Windows is for how many windows a unit counts: 2 if a window also counts the one before it, 0 if units drain.
	Windows int64
	// Log: the counter stores the instant of every unit, so a refund depends on when its units were spent.
	Log bool
	// Drains: units drain steadily, with the units of the limit per window. The limit has a burst.
	Drains bool
	// Queues: an allowed charge has a delay until its turn, and the burst is the length of the queue. Replicas cannot divide the turns, so no
	// units are leased.
	Queues bool
	// Debts: the counter can hold more units than the limit.
	Debts bool
	// Compact is the name of its compact counters in scripts: "Compact" and Name. They need Aligned windows. It is empty for the other algorithms.
	Compact string

	// Script is the name of its Lua in package limiter/redisstore/lua: Script.lua and Script_refund.lua.
	Script string
	// RedisBytes is the approximate memory of a counter with one request in Redis, in bytes, as docs/how-to/run-on-redis.md lists it.
	RedisBytes int64

	schema   int // changes with the stored form of the counters, so that limiters of two versions do not find each other's values corrupt
	newState func(limit Limit, coarse bool) State
	// unpack and assume are those of a Packed; nil if the size of a state depends on what was spent.
	unpack func(Packed) State
	assume func(p Packed, now Instant, limit Limit, used int64) (next Packed, expires Instant)
}

// EndsWithWindow reports whether all units of a window stop counting at its end, which is known in advance.
func (t *Traits) EndsWithWindow() bool { return t.Aligned && t.Windows == 1 }

var (
	// table has the row of each algorithm, in the order in which tools list them.
	table = newTable(fixedWindowTraits(), windowCounterTraits(), windowLogTraits(), tokenBucketTraits(), leakyBucketTraits()) //nolint:gochecknoglobals // a table
	// unknown is the row of a name that is no algorithm.
	unknown Traits //nolint:gochecknoglobals // never changes
)

func newTable(rows ...Traits) (table []*Traits) {
	for i, row := range rows {
		row.Number = uint8(i + 1)
		table = append(table, &row)
	}
	return table
}

// Algorithms returns all algorithms.
func Algorithms() []Algorithm {
	return AlgorithmsWith(func(*Traits) bool { return true })
}

// AlgorithmsWith returns the algorithms with a trait.
func AlgorithmsWith(trait func(*Traits) bool) (names []Algorithm) {
	for _, row := range table {
		if trait(row) {
			names = append(names, row.Name)
		}
	}
	return names
}

// Traits returns the traits of the algorithm. Those of an unknown algorithm are zero.
func (a Algorithm) Traits() *Traits {
	if i := slices.IndexFunc(table, func(row *Traits) bool { return row.Name == a }); i >= 0 {
		return table[i]
	}
	return &unknown
}

// HasCompact reports whether the algorithm has compact counters, see [KeySpace.Compact].
func (a Algorithm) HasCompact() bool { return a.Traits().Compact != "" }
