package bound

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-dev/weir/go/internal/limiter"
	"github.com/weir-dev/weir/go/internal/limiter/hyperloglog"
)

const (
	// updateEvery is the number of added counters between two updates of an estimate. The estimate lags behind by as many at most.
	updateEvery = 64
	// minGeneration is the shortest time that a sketch collects.
	minGeneration = time.Second
)

// population estimates the number of live counters of one rule that this replica has charged: those of the last one to two
// generations. Adding a counter takes no lock.
type population struct {
	generation atomic.Int64 // a time.Duration: the longest lifetime of a counter
	max        float64      // 0: no maximum
	storage    storage

	sketches [2]hyperloglog.Sketch
	current  atomic.Int32 // index in sketches; the other one is that of the previous generation
	added    atomic.Uint32
	overMax  atomic.Bool // the estimate is above max
	// overMemory is true while Redis is nearly full and the counters of the policy take most of it.
	overMemory atomic.Bool

	updating  sync.Mutex
	began     time.Time // of the current generation
	estimated float64
}

func newPopulation(most int64, now time.Time) *population {
	return &population{max: float64(most), began: now}
}

// setLifetime sets the longest lifetime of a counter.
func (p *population) setLifetime(lifetime time.Duration) {
	p.generation.Store(int64(max(lifetime, minGeneration)))
}

// add adds a counter by its hash.
func (p *population) add(hash uint64, clock func() time.Time) {
	p.sketches[p.current.Load()].Add(hash)
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
	return p.estimate()
}

// estimate returns the last estimate.
func (p *population) estimate() float64 {
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
		p.sketches[next].Clear()
		if passed >= 2*generation {
			p.sketches[1-next].Clear()
		}
		p.current.Store(next)
		p.began = now
	}
	p.estimated = hyperloglog.Estimate(&p.sketches[0], &p.sketches[1])
	p.overMax.Store(p.max > 0 && p.estimated > p.max)
}
