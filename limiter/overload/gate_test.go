package overload

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-dev/weir/limiter"
)

// counter counts.
type counter struct{ atomic.Int64 }

func (c *counter) Inc() { c.Add(1) }

// overloadedGate is a Gate that runs in a bubble of synctest, with a delay that the test sets, and its log.
func overloadedGate(t *testing.T) (g *Gate, delay *atomic.Int64, log *bytes.Buffer) {
	log, delay = new(bytes.Buffer), new(atomic.Int64)
	g = NewGate(2, slog.New(slog.NewTextHandler(log, nil)))
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { g.Run(ctx, func() time.Duration { return time.Duration(delay.Load()) }) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
		if got := g.limit.Load(); got != 2048 {
			t.Errorf("limit %d after the end", got)
		}
	})
	return g, delay, log
}

// enter admits as many of n requests as it can.
func enter(e *Endpoint, n int) (admitted int) {
	for range n {
		if e.Enter() {
			admitted++
		}
	}
	return admitted
}

func TestGate_RejectsWhatIsTooMuchUntilTheDelayEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, delay, log := overloadedGate(t)
		var shed counter
		e := g.Endpoint(&shed)
		if got := enter(e, 1000); got != 1000 {
			t.Fatalf("%d of 1000 requests admitted before the overload", got)
		}
		delay.Store(int64(2 * targetDelay))
		time.Sleep(125 * time.Millisecond) // the delay lasts from the measurement at 100 to that at 120
		for range 600 {
			e.Leave()
		}
		if got := enter(e, 1000); got != 100 || shed.Load() != 900 {
			t.Errorf("%d of 1000 requests admitted and %d counted as shed, want 100 and 900: 500 of the 1000 that took twice too long", got, shed.Load())
		}
		for range 500 {
			e.Leave()
		}
		delay.Store(int64(targetDelay / 4))
		time.Sleep(time.Second)
		if got := enter(e, 5000); got != 2048 || g.running.Load() != 2048 {
			t.Errorf("%d of 5000 requests admitted one second later, %d in progress, want 1024 a processor", got, g.running.Load())
		}
		if text := log.String(); strings.Count(text, "overloaded: rejecting") != 1 || strings.Count(text, "no longer overloaded") != 1 {
			t.Errorf("log:\n%s", text)
		}
	})
}

// The limit grows, and does not end, as long as requests are rejected.
func TestGate_KeepsTheLimitWhileItRejects(t *testing.T) {
	g := NewGate(2, slog.New(slog.DiscardHandler))
	control := newController(g.most)
	control.limit = 500
	g.limit.Store(500)
	e := g.Endpoint(new(counter))
	for round := range 60 {
		before := g.limit.Load()
		enter(e, 3000)
		g.adapt(control, targetDelay/4)
		if got := g.limit.Load(); got <= before && got != 2047 || got == 2048 {
			t.Fatalf("round %d: limit %d after %d", round, got, before)
		}
	}
}

func TestGate_HasNoLimitAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, delay, _ := overloadedGate(t) // checks the limit after the end
		delay.Store(int64(2 * targetDelay))
		enter(g.Endpoint(new(counter)), 600)
		time.Sleep(125 * time.Millisecond)
		if got := g.limit.Load(); got != 300 {
			t.Errorf("limit %d, want 300", got)
		}
	})
}

func TestGate_CountsAnnouncedRequests(t *testing.T) {
	var shed counter
	g := NewGate(2, slog.New(slog.DiscardHandler))
	e := g.Endpoint(&shed)
	g.limit.Store(2)
	var all [3]Announcement
	for i, want := range []bool{true, true, false} {
		var got bool
		if all[i], got = e.Announce(); got != want {
			t.Errorf("request %d admitted: %t, want %t", i+1, got, want)
		}
	}
	if e.Enter() {
		t.Error("entered although two requests were announced")
	}
	if !e.Begin(all[0]) {
		t.Error("a request did not begin that was announced")
	}
	if _, admitted := e.Announce(); admitted {
		t.Error("admitted although one request was announced and one is running")
	}
	e.Leave()
	if !e.Enter() || shed.Load() != 3 {
		t.Errorf("not admitted after one request ended, or %d counted as shed, want 3", shed.Load())
	}
	e.Withdraw(all[1])
	if !e.Enter() {
		t.Error("not admitted after an announced request was withdrawn")
	}
}

// A caller can send the headers of a request and no body, during an overload too.
func TestGate_ForgetsAnnouncedRequestsThatDoNotBegin(t *testing.T) {
	for _, limit := range []int64{2048, 500} {
		var shed counter
		g := NewGate(2, slog.New(slog.DiscardHandler))
		control := newController(g.most)
		control.limit = limit
		g.limit.Store(limit)
		e := g.Endpoint(&shed)
		var old Announcement
		for range limit {
			old, _ = e.Announce()
		}
		g.adapt(control, targetDelay)
		if e.Enter() {
			t.Errorf("limit %d: entered after one measurement", limit)
		}
		g.adapt(control, targetDelay)
		if got := enter(e, 3000); int64(got) != g.limit.Load() {
			t.Errorf("limit %d: %d requests entered after two measurements, want %d", limit, got, g.limit.Load())
		}
		before := shed.Load()
		if e.Begin(old) || shed.Load() != before+1 {
			t.Errorf("limit %d: a forgotten request began although the gate was full, or was not counted", limit)
		}
		e.Leave()
		if !e.Begin(old) || g.inProgress() != g.limit.Load() {
			t.Errorf("limit %d: a forgotten request did not begin, or %d are in progress", limit, g.inProgress())
		}
	}
}

// The overload begins while requests are announced.
func TestGate_AdmitsNoMoreThanItsLimitWhenAnnouncedRequestsHaveBegunLate(t *testing.T) {
	g := NewGate(1, slog.New(slog.DiscardHandler))
	control := newController(g.most)
	for range 3 {
		var announced []Announcement
		for range 1000 {
			a, _ := g.Announce()
			announced = append(announced, a)
		}
		g.adapt(control, 2*targetDelay)
		g.adapt(control, 2*targetDelay)
		for _, a := range announced {
			if g.Begin(a) {
				g.Leave()
			}
		}
	}
	if got := enter(g.Endpoint(new(counter)), 5000); int64(got) != g.limit.Load() {
		t.Errorf("%d requests entered, want %d", got, g.limit.Load())
	}
}

func TestEndpoint_CountsRequestsThatTheStoreDidNotDecide(t *testing.T) {
	var shed counter
	e := NewGate(2, slog.New(slog.DiscardHandler)).Endpoint(&shed)
	e.Failed(nil)
	e.Failed(errors.New("other"))
	e.Failed(fmt.Errorf("spend: %w", limiter.ErrOverloaded))
	if got := shed.Load(); got != 1 {
		t.Errorf("%d requests counted, want 1", got)
	}
}

func TestGate_NilAdmitsEverything(t *testing.T) {
	var g *Gate
	var none *Endpoint
	for name, e := range map[string]*Endpoint{"gate": g.Endpoint(new(counter)), "endpoint": none} {
		announced, admitted := e.Announce()
		if !e.Enter() || !admitted || !e.Begin(announced) {
			t.Errorf("nil %s rejects", name)
		}
		e.Withdraw(announced)
		e.Leave()
		e.Failed(nil)
	}
}

func TestMedian(t *testing.T) {
	inf := math.Inf(1)
	buckets := []float64{math.Inf(-1), 0, 0.001, 0.002, inf}
	for name, test := range map[string]struct {
		counts []uint64
		want   time.Duration
	}{
		"nothing":        {[]uint64{0, 0, 0, 0}, 0},
		"one":            {[]uint64{0, 0, 1, 0}, time.Millisecond},
		"half is enough": {[]uint64{0, 2, 0, 2}, 0},
		"above":          {[]uint64{0, 1, 1, 3}, 2 * time.Millisecond},
	} {
		if got := median(test.counts, buckets); got != test.want {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}

// With one processor and 50 goroutines that compute for 1 ms each, a goroutine waits for about 50 ms.
func TestSchedulingDelay_MeasuresHowLongGoroutinesWaitForAProcessor(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	delay := SchedulingDelay()
	delay()
	stop := time.Now().Add(300 * time.Millisecond)
	var computing sync.WaitGroup
	var turns atomic.Int64
	for range 50 {
		computing.Go(func() {
			for time.Now().Before(stop) {
				for began := time.Now(); time.Since(began) < time.Millisecond; {
					turns.Add(1)
				}
				runtime.Gosched()
			}
		})
	}
	computing.Wait()
	if got := delay(); got < 10*time.Millisecond {
		t.Errorf("%v, want tens of milliseconds", got)
	}
	for range 50 { // one after the other
		computing.Go(func() { turns.Add(1) })
		computing.Wait()
	}
	if got := delay(); got >= 10*time.Millisecond {
		t.Errorf("%v since the last call, although no goroutine had to wait", got)
	}
}
