package local

import (
	"hash/maphash"
	"math"

	"github.com/weir-dev/weir/limiter"
)

// sketch estimates what was spent on evicted counters. It is a max-sketch: a count-min sketch whose cells hold a maximum instead
// of a sum. Many keys share a cell, and the cell holds the highest value of them all. A key has one cell in each of two rows, and
// its estimate is the lower of the two, so an estimate is never too low. The size is fixed; the memory is allocated on first
// use.
type sketch struct {
	cells int // per row
	seeds [2]maphash.Seed
	rows  [2][]cell
}

// cell holds the spent part of a limit, until the second after which it no longer counts.
type cell struct {
	until uint32 // seconds since the epoch
	part  uint16
}

// cellBytes is the size of a cell.
const cellBytes = 8

// whole is the part of a limit that is all of it.
const whole = math.MaxUint16

// partOf is the part of a capacity that units are, rounded up.
func partOf(units, capacity int64) uint16 {
	return uint16((min(units, capacity)*whole + capacity - 1) / capacity)
}

// unitsOf is the number of units in a part of a capacity. For units ≤ capacity, unitsOf(partOf(units)) ≥ units.
func unitsOf(part uint16, capacity int64) int64 { return int64(part) * capacity / whole }

func newSketch(bytes int) sketch {
	return sketch{cells: max(bytes/cellBytes/2, 1), seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}}
}

// raise raises the estimate for key to at least part, until the instant expires.
func (s *sketch) raise(key string, part uint16, expires, now limiter.Instant) {
	for row := range s.rows {
		if s.rows[row] == nil {
			s.rows[row] = make([]cell, s.cells)
		}
		at := s.cell(row, key)
		if at.expired(now) {
			*at = cell{}
		}
		at.part, at.until = max(at.part, part), max(at.until, seconds(expires+999_999))
	}
}

// estimate is the estimated part for key now.
func (s *sketch) estimate(key string, now limiter.Instant) uint16 {
	least := uint16(whole)
	for row := range s.rows {
		if s.rows[row] == nil {
			return 0
		}
		at := s.cell(row, key)
		if at.expired(now) {
			return 0
		}
		least = min(least, at.part)
	}
	return least
}

func (s *sketch) cell(row int, key string) *cell {
	return &s.rows[row][maphash.String(s.seeds[row], key)%uint64(s.cells)]
}

func (c *cell) expired(now limiter.Instant) bool { return c.until <= seconds(now) }

func seconds(at limiter.Instant) uint32 { return uint32(at / 1_000_000) }
