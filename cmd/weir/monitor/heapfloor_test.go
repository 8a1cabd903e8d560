package monitor

import (
	"context"
	"errors"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"testing/synctest"
)

func TestGCPercentFor_StartsACollectionAtTheFloor(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		name               string
		floor, live, roots uint64
		want               int
	}{
		{"small live heap", 100 * mib, 20 * mib, 0, 400},
		{"roots count", 100 * mib, 20 * mib, 5 * mib, 320},
		{"never below the default", 100 * mib, 60 * mib, 0, 100},
		{"live heap above the floor", 100 * mib, 200 * mib, 0, 100},
		{"nothing allocated", 100 * mib, 0, 0, 1<<31 - 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := gcPercentFor(c.floor, c.live, c.roots); got != c.want {
				t.Errorf("GOGC %d, want %d", got, c.want)
			}
		})
	}
}

// heapGoal returns the heap size that starts the next collection, in bytes.
func heapGoal() uint64 {
	samples := []metrics.Sample{{Name: "/gc/heap/goal:bytes"}}
	metrics.Read(samples)
	return samples[0].Value.Uint64()
}

func TestHeapFloor_RaisesTheHeapGoalWithinTheMemoryLimit(t *testing.T) {
	t.Setenv("GOGC", "")
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(1 << 30))
	defer debug.SetGCPercent(debug.SetGCPercent(minGCPercent))
	live := make([]byte, 16<<20) // Go multiplies at least 4 MiB by GOGC, and a limiter has more
	runtime.GC()
	before := heapGoal()
	h := NewHeapFloor(4 << 30)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	h.adjust()
	if goal := heapGoal(); goal < 700<<20 || goal > 900<<20 {
		t.Errorf("the next collection starts at %d bytes, want about three quarters of the memory limit of 1 GiB (before: %d)", goal, before)
	}
	runtime.KeepAlive(live)
	if err := h.Run(ctx); err != nil && !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if goal := heapGoal(); goal > 4*before {
		t.Errorf("the next collection starts at %d bytes after the end, %d before", goal, before)
	}
}

func TestHeapFloor_LeavesGOGCOfTheEnvironment(t *testing.T) {
	t.Setenv("GOGC", "100")
	h := NewHeapFloor(4 << 30)
	if h != nil {
		t.Errorf("a floor of %d bytes, want none", h.bytes)
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- h.Run(ctx) }()
		synctest.Wait()
		if len(ended) > 0 {
			t.Error("it has ended, which ends the process")
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
