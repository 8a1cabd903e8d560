package http2_test

import (
	"context"
	"runtime"
	"runtime/metrics"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/weir-dev/weir/test/latency"
)

// cost is the most that a server has held since measure was called. It includes what the peers of the test hold, which is little.
type cost struct {
	t          *testing.T
	heap       int64 // bytes that are reachable, and stacks
	goroutines int
	cpu        time.Duration // at the beginning
	stop       chan struct{}
	stopped    sync.WaitGroup
	maxHeap    int64
	maxRoutine int
}

// measure samples the memory and the goroutines of this process until the first call of held.
func measure(t *testing.T) *cost {
	t.Helper()
	c := &cost{t: t, heap: reachable(), goroutines: runtime.NumGoroutine(), cpu: processorTime(), stop: make(chan struct{})}
	c.stopped.Go(func() {
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-c.stop:
				return
			case <-tick.C:
				c.sample()
			}
		}
	})
	return c
}

func (c *cost) sample() {
	c.maxHeap = max(c.maxHeap, reachable()-c.heap)
	c.maxRoutine = max(c.maxRoutine, runtime.NumGoroutine()-c.goroutines)
}

// held ends the measurement and checks the bounds.
func (c *cost) held(maxBytes int64, maxGoroutines int) {
	c.t.Helper()
	close(c.stop)
	c.stopped.Wait()
	c.sample()
	c.t.Logf("at most %d KiB, %d goroutines; %v CPU time of both sides", c.maxHeap>>10, c.maxRoutine, (processorTime() - c.cpu).Round(time.Millisecond))
	if c.maxHeap > maxBytes {
		c.t.Errorf("the server and the peer held %d KiB, want at most %d KiB", c.maxHeap>>10, maxBytes>>10)
	}
	if c.maxRoutine > maxGoroutines {
		c.t.Errorf("%d more goroutines, want at most %d", c.maxRoutine, maxGoroutines)
	}
}

// reachable returns the bytes of objects that the garbage collector has just found to be live, and of stacks. Garbage that was allocated
// since then does not count.
func reachable() (bytes int64) {
	runtime.GC()
	samples := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"}}
	metrics.Read(samples)
	for _, s := range samples {
		bytes += int64(s.Value.Uint64())
	}
	return bytes
}

func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err) // the arguments are valid
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// honest is a client whose calls must be decided while other peers misbehave.
type honest struct {
	t         *testing.T
	slow      *latency.Failures
	cancel    context.CancelFunc
	done      sync.WaitGroup
	latencies []time.Duration
	failures  []error
}

// startHonest calls the limiter on another connection until wantServed.
func (e *endpoint) startHonest(t *testing.T, slow *latency.Failures) *honest {
	t.Helper()
	client := e.client(t)
	ctx, cancel := context.WithCancel(t.Context())
	h := &honest{t: t, slow: slow, cancel: cancel}
	if err := ask(ctx, client); err != nil {
		t.Fatal(err)
	}
	h.done.Go(func() {
		for ctx.Err() == nil {
			began := time.Now()
			err := ask(context.WithoutCancel(ctx), client)
			h.latencies = append(h.latencies, time.Since(began))
			if err != nil {
				h.failures = append(h.failures, err)
			}
			time.Sleep(time.Millisecond)
		}
	})
	return h
}

func ask(ctx context.Context, client ratelimitv3.RateLimitServiceClient) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	response, err := client.ShouldRateLimit(ctx, request())
	if err == nil && response.GetOverallCode() != ratelimitv3.RateLimitResponse_OK {
		err = errWrongDecision
	}
	return err
}

// wantServed checks that no call failed, and that the p99 latency is at most limit.
func (h *honest) wantServed(limit time.Duration) {
	h.t.Helper()
	h.cancel()
	h.done.Wait()
	for _, err := range h.failures {
		h.t.Errorf("an honest client was not served: %v", err)
	}
	slices.Sort(h.latencies)
	p99 := h.latencies[len(h.latencies)*99/100]
	h.t.Logf("%d calls of an honest client, p99 %v", len(h.latencies), p99.Round(10*time.Microsecond))
	if p99 > limit {
		h.slow.Errorf("the p99 latency of an honest client is %v, want at most %v", p99, limit)
	}
}
