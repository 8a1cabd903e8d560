// Package counters keeps the counters of replayed requests, with what is known about each identifier. A table has no pointers, so that ten million
// identifiers fit into a gigabyte, and a garbage collection does not look at them.
package counters

import (
	"github.com/weir-dev/weir/limiter"
)

const (
	chunkBits = 12
	chunkSize = 1 << chunkBits // entries of a chunk, which is never moved
	chunkMask = chunkSize - 1
	// A slot of the index has the upper half of a hash, and below it the number of the entry plus 1.
	tagShift = 32
	numbers  = 1<<tagShift - 1
)

// Entry is a counter, and what its identifier asked for. Its size is that of a cache line.
type Entry struct {
	Hash uint64
	// Window is the number of the window of the last request since the epoch, Demand the units that its requests would cost, allowed or not, and Peak
	// the largest Demand.
	Window, Demand, Peak uint32
	Requests, Denied     uint32
	// FirstDenial is in seconds since the epoch. It is 0 without a denial.
	FirstDenial uint32

	state limiter.Packed // unless the algorithm is a log
}

// Ask records that a request asks for units in a window. Counts stay at their largest value.
func (e *Entry) Ask(window uint32, units int64) {
	if e.Window != window {
		e.Window, e.Demand = window, 0
	}
	const most = 1<<32 - 1
	e.Demand = uint32(min(int64(e.Demand)+units, most))
	e.Peak = max(e.Peak, e.Demand)
	if e.Requests < most {
		e.Requests++
	}
}

// Deny records a denial, and reports whether it is the first one.
func (e *Entry) Deny(now limiter.Instant) (first bool) {
	first = e.Denied == 0
	if first {
		e.FirstDenial = uint32(now / 1e6)
	}
	if e.Denied < 1<<32-1 {
		e.Denied++
	}
	return first
}

// Table has the counters of one rule. Their keys are hashes of 64 bits: that two of ten million are equal has a probability of 1 in 370 000.
type Table struct {
	index  []uint64 // open addressing; 0 is a free slot
	chunks [][]Entry
	logs   []limiter.State // by entry, of algorithms whose states have no fixed size; nil is the state of a new counter
	packs  bool
	length int
	sweep  int           // the log that is checked next
	spare  limiter.State // that no call uses, nil without one
}

// NewTable returns an empty table for counters under limits with the algorithm of limit.
func NewTable(limit limiter.Limit) *Table {
	return &Table{index: make([]uint64, 1024), packs: limit.Packs()}
}

// Len is the number of entries.
func (t *Table) Len() int { return t.length }

// Bytes is the approximate memory of the table, without logs.
func (t *Table) Bytes() int { return 8*len(t.index) + 64*chunkSize*len(t.chunks) + 16*len(t.logs) }

// Entry returns an entry by its number.
func (t *Table) Entry(number int) *Entry { return &t.chunks[number>>chunkBits][number&chunkMask] }

// guess returns the number of the entry at the usual place of a hash, or -1 without one.
func (t *Table) guess(hash uint64) (number int) {
	return int(t.index[hash&uint64(len(t.index)-1)]&numbers) - 1
}

// Find returns the number of the entry of a hash, which it adds if it is new.
func (t *Table) Find(hash uint64) (number int) {
	mask := uint64(len(t.index) - 1)
	for at := hash & mask; ; at = (at + 1) & mask {
		slot := t.index[at]
		if slot == 0 {
			break
		}
		if slot>>tagShift == hash>>tagShift {
			if number := int(slot&numbers) - 1; t.Entry(number).Hash == hash {
				return number
			}
		}
	}
	return t.add(hash)
}

func (t *Table) add(hash uint64) (number int) {
	if t.length >= len(t.index)/4*3 {
		t.grow()
	}
	number = t.length
	if number>>chunkBits == len(t.chunks) {
		t.chunks = append(t.chunks, make([]Entry, chunkSize))
	}
	t.length++
	t.Entry(number).Hash = hash
	if !t.packs {
		t.logs = append(t.logs, nil)
	}
	t.insert(hash, number)
	return number
}

func (t *Table) insert(hash uint64, number int) {
	mask := uint64(len(t.index) - 1)
	at := hash & mask
	for t.index[at] != 0 {
		at = (at + 1) & mask
	}
	t.index[at] = hash>>tagShift<<tagShift | uint64(number+1)
}

func (t *Table) grow() {
	t.index = make([]uint64, 2*len(t.index))
	for number := range t.length {
		t.insert(t.Entry(number).Hash, number)
	}
}

// state returns the state of a counter. The caller gives it back with put, or drops it.
func (t *Table) state(number int, limit limiter.Limit) limiter.State {
	if t.packs {
		if s := t.spare; s != nil {
			t.spare = nil
			return t.Entry(number).state.UnpackInto(s)
		}
		return t.Entry(number).state.Unpack(limit)
	}
	if s := t.logs[number]; s != nil {
		return s
	}
	return limit.NewState()
}

// put stores the state of a counter, unless nothing counts any more.
func (t *Table) put(number int, limit limiter.Limit, state limiter.State, now limiter.Instant) {
	if t.packs {
		t.Entry(number).state = limiter.Pack(state)
		t.spare = state
		return
	}
	if state.Expires(limit) <= now {
		state = nil
	}
	t.logs[number] = state
	t.sweep = sweep(t.logs, t.sweep, limit, now)
}

// sweepSize is the number of logs that are checked with each change of one. All of them are checked in the time of a few requests of each identifier.
const sweepSize = 8

// sweep frees logs in which nothing counts any more, and returns where the next sweep begins.
func sweep(logs []limiter.State, at int, limit limiter.Limit, now limiter.Instant) (next int) {
	for range min(sweepSize, len(logs)) {
		if at++; at >= len(logs) {
			at = 0
		}
		if s := logs[at]; s != nil && s.Expires(limit) <= now {
			logs[at] = nil
		}
	}
	return at
}

// Logs is the number of logs in which something counts, or counted when they were checked last.
func (t *Table) Logs() int { return live(t.logs) }

func live(logs []limiter.State) (n int) {
	for _, s := range logs {
		if s != nil {
			n++
		}
	}
	return n
}
