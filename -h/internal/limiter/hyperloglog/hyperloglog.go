// Package hyperloglog estimates how many distinct values there are, in a fixed amount of memory and without locks.
package hyperloglog

import (
	"math"
	"math/bits"
	"sync/atomic"
)

const (
	// indexBits of a hash select one of the registers of a sketch. The standard error of an estimate is 1.04/√registers: 3 %.
	indexBits = 10
	registers = 1 << indexBits
)

// Sketch is a HyperLogLog: it estimates the number of distinct hashes that were added, in one kilobyte. Each register is a byte of
// a word: the largest number of leading zeros of its hashes, plus one.
type Sketch [registers / 4]atomic.Uint32

// Add adds a hash.
func (s *Sketch) Add(hash uint64) {
	register := hash >> (64 - indexBits)
	rank := uint32(bits.LeadingZeros64(hash<<indexBits|1<<(indexBits-1))) + 1
	word, shift := &s[register/4], register%4*8
	for {
		old := word.Load()
		if old>>shift&0xff >= rank {
			return
		}
		if word.CompareAndSwap(old, old&^(0xff<<shift)|rank<<shift) {
			return
		}
	}
}

// Clear removes all hashes. Those that are added meanwhile may remain or not.
func (s *Sketch) Clear() {
	for i := range s {
		s[i].Store(0)
	}
}

// Estimate returns the estimated number of distinct hashes in both sketches together, by algorithm 6 of Otmar Ertl, New cardinality estimation
// algorithms for HyperLogLog sketches, 2017: it has no bias where the usual estimate changes to linear counting.
func Estimate(a, b *Sketch) float64 {
	const m, bits = float64(registers), 64 - indexBits
	var counts [bits + 2]float64 // of registers by their rank
	for i := range a {
		x, y := a[i].Load(), b[i].Load()
		for shift := 0; shift < 32; shift += 8 {
			counts[max(x>>shift&0xff, y>>shift&0xff)]++
		}
	}
	sum := m * fullRegisters(1-counts[bits+1]/m)
	for rank := bits; rank >= 1; rank-- {
		sum = (sum + counts[rank]) / 2
	}
	sum += m * emptyRegisters(counts[0]/m)
	return m * m / (2 * math.Ln2 * sum)
}

// emptyRegisters is σ of the algorithm, for the part of the registers that are empty.
func emptyRegisters(part float64) float64 {
	if part == 1 {
		return math.Inf(1) // no hash was added
	}
	sum, weight, previous := part, 1.0, -1.0
	for sum != previous {
		part *= part
		previous, sum = sum, sum+part*weight
		weight *= 2
	}
	return sum
}

// fullRegisters is τ of the algorithm, for the part of the registers that do not have the highest rank.
func fullRegisters(part float64) float64 {
	if part == 0 || part == 1 {
		return 0
	}
	sum, weight, previous := 1-part, 1.0, -1.0
	for sum != previous {
		part = math.Sqrt(part)
		weight /= 2
		previous, sum = sum, sum-(1-part)*(1-part)*weight
	}
	return sum / 3
}
