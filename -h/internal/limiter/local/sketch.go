package local

import (
	"math"
	"sync"

	"github.com/weir-dev/weir/go/internal/limiter"
)

// sketch estimates what was spent on evicted counters. It is a max-sketch: a count-min sketch whose cells hold a maximum instead
// of a sum. Many keys share a cell, and the cell holds the highest value of them all. A key has one cell in each of two rows, which
// its hash selects, and its estimate is the lower of the two, so an estimate is never too low. The size is fixed; the memory is allocated
// on first use. Its times are those of our clock.
type sketch struct {
	cells int // per row

	mu     sync.Mutex
	rows   [2][]cell
	raised int64 // counters
}

// cell holds the spent part of a limit, until the second after which it no longer counts.
type cell struct {
	expiresAt uint32 // seconds since the epoch
	part      uint16
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

func newSketch(bytes int) *sketch {
	return &sketch{cells: min(max(bytes/cellBytes/2, 1), math.MaxInt32)}
}

// raise raises the estimate for a hash to at least part, until the given second.
func (s *sketch) raise(hash uint64, part uint16, expiresAt uint32, now limiter.Instant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.raised++
	for row := range s.rows {
		if s.rows[row] == nil {
			s.rows[row] = make([]cell, s.cells)
		}
		c := s.cell(row, hash)
		if c.expired(now) {
			*c = cell{}
		}
		c.part, c.expiresAt = max(c.part, part), max(c.expiresAt, expiresAt)
	}
}

// estimate is the estimated part for a hash now.
func (s *sketch) estimate(hash uint64, now limiter.Instant) uint16 {
	s.mu.Lock()
	defer s.mu.Unlock()
	least := uint16(whole)
	for row := range s.rows {
		if s.rows[row] == nil {
			return 0
		}
		c := s.cell(row, hash)
		if c.expired(now) {
			return 0
		}
		least = min(least, c.part)
	}
	return least
}

// count is the number of counters that were evicted.
func (s *sketch) count() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.raised
}

// cell returns the cell that one half of the hash selects.
func (s *sketch) cell(row int, hash uint64) *cell {
	return &s.rows[row][uint64(uint32(hash>>(32*row)))*uint64(s.cells)>>32]
}

func (c *cell) expired(now limiter.Instant) bool { return c.expiresAt <= seconds(now) }

func seconds(instant limiter.Instant) uint32 { return uint32(instant / 1_000_000) }

// secondAfter is the second by which an instant has passed.
func secondAfter(instant limiter.Instant) uint32 { return seconds(instant + 999_999) }
