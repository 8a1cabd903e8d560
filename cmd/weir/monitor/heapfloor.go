package monitor

import (
	"context"
	"math"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// minGCPercent is the default GOGC.
	minGCPercent = 100
	// heapFloorPercent of the memory limit is what the heap can always use before a collection. The live heap of a limiter is small, and
	// with GOGC alone the collector would run several times a second under load. The rest is for stacks, and for what is allocated
	// during a collection.
	heapFloorPercent = 75
	// heapFloorInterval is the time between two adjustments. If the live heap grows faster, the memory limit starts the collections.
	heapFloorInterval = time.Second
)

// HeapFloor keeps the heap size that starts a garbage collection from being less than a minimum. It adjusts GOGC to the live heap,
// because Go has no such setting.
type HeapFloor struct {
	bytes   uint64
	percent int // the current GOGC
}

// NewHeapFloor returns the floor within the memory of the process, in bytes, and within the Go memory limit. It returns nil, which
// changes nothing, if the environment sets GOGC.
func NewHeapFloor(memory int64) *HeapFloor {
	if os.Getenv("GOGC") != "" {
		return nil
	}
	floor := min(memory, debug.SetMemoryLimit(-1)) / 100 * heapFloorPercent
	return &HeapFloor{bytes: uint64(floor), percent: minGCPercent}
}

// Run adjusts GOGC until ctx is done, and then restores the default.
func (h *HeapFloor) Run(ctx context.Context) error {
	if h == nil {
		<-ctx.Done() // a task that returns ends the process
		return nil
	}
	defer debug.SetGCPercent(minGCPercent)
	ticker := time.NewTicker(heapFloorInterval)
	defer ticker.Stop()
	for {
		h.adjust()
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// adjust sets GOGC for the current live heap.
func (h *HeapFloor) adjust() {
	samples := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/stack:bytes"}, {Name: "/gc/scan/globals:bytes"}}
	metrics.Read(samples)
	percent := gcPercentFor(h.bytes, samples[0].Value.Uint64(), samples[1].Value.Uint64()+samples[2].Value.Uint64())
	if percent != h.percent { // a change stops the process for some microseconds
		h.percent = percent
		debug.SetGCPercent(percent)
	}
}

// gcPercentFor returns the GOGC with which the next collection starts at floor bytes of heap, at least minGCPercent. Go starts it at
// live + (live + roots) · GOGC / 100.
func gcPercentFor(floor, live, roots uint64) int {
	if live >= floor {
		return minGCPercent
	}
	percent := math.Ceil(float64(floor-live) * 100 / float64(max(live+roots, 1)))
	return max(minGCPercent, int(min(percent, math.MaxInt32)))
}
