package engine

import (
	"math"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-dev/weir/limiter"
)

const (
	// indexBits of a hash select one of the registers of a sketch. The standard error of an estimate is 1.04/√registers: 3 %.
	indexBits = 10
	registers = 1 << indexBits
	// updateEvery is the number of added counters between two updates of an estimate. The estimate lags behind by as many at most.
	updateEvery = 64
	// minGeneration is the shortest time that a sketch collects.
	minGeneration = time.Second
)

// sketch is a HyperLogLog: it estimates the number of distinct hashes that were added, in one kilobyte. Each register is a byte of
// a word: the largest number of leading zeros of its hashes, plus one.
type sketch [registers / 4]atomic.Uint32

func (s *sketch) add(hash uint64) {
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

func (s *sketch) clear() {
	for i := range s {
		s[i].Store(0)
	}
}

// estimate returns the estimated number of distinct hashes in both sketches together, by algorithm 6 of Otmar Ertl, New cardinality estimation
// algorithms for HyperLogLog sketches, 2017: it has no bias where the usual estimate changes to linear counting.
func estimate(a, b *sketch) float64 {
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

// population estimates the number of live counters of one rule that this replica has charged: those of the last one to two
// generations. Adding a counter takes no lock.
type population struct {
	generation atomic.Int64 // a time.Duration: the longest lifetime of a counter
	max        float64      // 0: no maximum
	report     func(estimate float64)
	storage    storage

	sketches [2]sketch
	current  atomic.Int32 // index in sketches; the other one is that of the previous generation
	added    atomic.Uint32
	overMax  atomic.Bool // the estimate is above max
	// overMemory is true while Redis is nearly full and the counters of the policy take most of it.
	overMemory atomic.Bool

	updating  sync.Mutex
	began     time.Time // of the current generation
	estimated float64
}

func newPopulation(most int64, report func(float64), now time.Time) *population {
	return &population{max: float64(most), report: report, began: now}
}

// setLifetime sets the longest lifetime of a counter.
func (p *population) setLifetime(lifetime time.Duration) {
	p.generation.Store(int64(max(lifetime, minGeneration)))
}

// add adds a counter by its hash.
func (p *population) add(hash uint64, clock func() time.Time) {
	p.sketches[p.current.Load()].add(hash)
	if p.added.Add(1)%updateEvery == 0 {
		p.update(clock(), true)
	}
}

// isOver reports whether new identifiers get no counter of their own. While there are more counters than max, it begins new generations.
func (p *population) isOver(clock func() time.Time) bool {
	if p.overMax.Load() {
		p.update(clock(), false)
	}
	return p.overMax.Load() || p.overMemory.Load()
}

// refresh begins a new generation when it is time to, and returns the estimate.
func (p *population) refresh(now time.Time) float64 {
	p.update(now, false)
	p.updating.Lock()
	defer p.updating.Unlock()
	return p.estimated
}

// nearMaximum reports whether the estimate is near or above max.
func (p *population) nearMaximum() limiter.Crowding {
	p.updating.Lock()
	defer p.updating.Unlock()
	switch {
	case p.overMax.Load():
		return limiter.OverMaximum
	case p.max > 0 && p.estimated >= warnMaximumFrom*p.max:
		return limiter.NearMaximum
	default:
		return ""
	}
}

// update begins a new generation when it is time to. It updates the estimate then, or if it is due.
func (p *population) update(now time.Time, due bool) {
	if !p.updating.TryLock() {
		return // another request does it
	}
	defer p.updating.Unlock()
	passed, generation := now.Sub(p.began), time.Duration(p.generation.Load())
	if !due && passed < generation {
		return
	}
	if passed >= generation {
		next := 1 - p.current.Load()
		p.sketches[next].clear()
		if passed >= 2*generation {
			p.sketches[1-next].clear()
		}
		p.current.Store(next)
		p.began = now
	}
	p.estimated = estimate(&p.sketches[0], &p.sketches[1])
	p.overMax.Store(p.max > 0 && p.estimated > p.max)
	p.report(p.estimated)
}
