package local

import (
	"hash/maphash"
	"math"

	"github.com/weir-dev/weir/limiter"
)

// floor is what may have been spent on counters that are held no more: a bound from above, for many share a cell, and the
// highest of them stands for all. A key has a cell in either row, and its floor is the lower of the two. It is of fixed
// size, and takes no memory before it is needed.
type floor struct {
	cells int // of a row
	seeds [2]maphash.Seed
	rows  [2][]cell
}

// cell is what is spent, until the second after which it counts no more.
type cell struct {
	until uint32 // seconds since the epoch
	part  uint16
}

// cellBytes is the size of a cell, of which each key needs two.
const cellBytes = 8

// whole is the part of a limit that is all of it.
const whole = math.MaxUint16

// partOf is the part that so many units are of a capacity, rounded up.
func partOf(units, capacity int64) uint16 {
	return uint16((min(units, capacity)*whole + capacity - 1) / capacity)
}

// unitsOf is how many units a part of a capacity is, no fewer than it was made of.
func unitsOf(part uint16, capacity int64) int64 { return int64(part) * capacity / whole }

func newFloor(bytes int) floor {
	return floor{cells: max(bytes/cellBytes/2, 1), seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}}
}

// raise makes part, which is over at an instant, the least for key.
func (f *floor) raise(key string, part uint16, over, now limiter.Instant) {
	for row := range f.rows {
		if f.rows[row] == nil {
			f.rows[row] = make([]cell, f.cells)
		}
		at := f.cell(row, key)
		if at.over(now) {
			*at = cell{}
		}
		at.part, at.until = max(at.part, part), max(at.until, seconds(over+999_999))
	}
}

// of is the least part for key now.
func (f *floor) of(key string, now limiter.Instant) uint16 {
	least := uint16(whole)
	for row := range f.rows {
		if f.rows[row] == nil {
			return 0
		}
		at := f.cell(row, key)
		if at.over(now) {
			return 0
		}
		least = min(least, at.part)
	}
	return least
}

func (f *floor) cell(row int, key string) *cell {
	return &f.rows[row][maphash.String(f.seeds[row], key)%uint64(f.cells)]
}

func (c *cell) over(now limiter.Instant) bool { return c.until <= seconds(now) }

func seconds(at limiter.Instant) uint32 { return uint32(at / 1_000_000) }
