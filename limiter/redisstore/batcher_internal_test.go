package redisstore

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-dev/weir/test/fixture"
)

// gate is a Redis that replies to one batch for each value in open.
type gate struct {
	mu      sync.Mutex
	batches [][]*call
	arrived chan int // sizes of the batches
	open    chan struct{}
}

func newGate() *gate {
	return &gate{arrived: make(chan int, 1000), open: make(chan struct{}, 1000)}
}

func (g *gate) send(batch []*call) {
	g.mu.Lock()
	g.batches = append(g.batches, batch)
	g.mu.Unlock()
	g.arrived <- len(batch)
	<-g.open
}

// callConcurrently makes n calls at the same time.
func callConcurrently(b *batcher, n int) (wait func() []error) {
	errs := make([]error, n)
	var wg sync.WaitGroup
	now := time.Now()
	for i := range n {
		wg.Go(func() { _, errs[i] = b.do(&call{began: now, deadline: now.Add(patience)}) })
	}
	return func() []error { wg.Wait(); return errs }
}

// awaitWaiting waits until that number of calls is waiting for a batch.
func awaitWaiting(t *testing.T, b *batcher, waiting int) {
	t.Helper()
	fixture.Await(t, fmt.Sprintf("%d calls wait", waiting), func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return len(b.waiting) == waiting
	})
}

// awaitBatch waits for the next batch.
func (g *gate) awaitBatch(t *testing.T, size int) {
	t.Helper()
	if n := <-g.arrived; n != size {
		t.Errorf("a batch of %d calls is sent, want %d", n, size)
	}
}

func TestBatcher_SendsWaitingCallsTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // all calls begin at the same time
		g := newGate()
		b := &batcher{send: g.send}
		var waits []func() []error
		call := func(n, waiting int) {
			waits = append(waits, callConcurrently(b, n))
			synctest.Wait()
			if got := len(b.waiting); got != waiting {
				t.Errorf("%d calls wait, want %d", got, waiting)
			}
		}
		for range 2 { // as many batches as can be in flight
			call(1, 0)
			g.awaitBatch(t, 1)
		}
		call(maxBatch+10, maxBatch+10)
		g.open <- struct{}{}
		g.awaitBatch(t, maxBatch)
		g.open <- struct{}{} // the other calls wait until they are as many
		call(maxBatch-11, maxBatch-1)
		call(1, 0)
		g.awaitBatch(t, maxBatch)
		close(g.open)
		for _, wait := range waits {
			if err := errors.Join(wait()...); err != nil {
				t.Error(err)
			}
		}
		synctest.Wait()
		if b.inFlight != 0 || b.sent != 0 {
			t.Errorf("at the end, %d batches with %d calls are in flight", b.inFlight, b.sent)
		}
	})
}

func TestBatcher_LastBatchInFlightIsAsLargeAsTheOthers(t *testing.T) {
	const near, distant = 100 * time.Microsecond, 3500 * time.Microsecond // 2 and 5 batches in flight
	for _, test := range []struct {
		trip                    time.Duration
		inFlight, sent, waiting int
		want                    bool
	}{
		{near, 0, 0, 0, false},
		{near, 0, 0, 1, true},
		{near, 1, 1, 1, true},
		{near, 1, 20, 19, false},
		{near, 1, 20, 20, true},
		{near, 1, maxBatch, maxBatch - 1, false},
		{near, 1, maxBatch, maxBatch, true},
		{near, 2, 2, maxBatch, false},
		{distant, 3, 100, 1, true},
		{distant, 4, 10, 2, false},
		{distant, 4, 10, 3, true},
		{distant, 5, 10, maxBatch, false},
	} {
		now := time.Now()
		b := &batcher{inFlight: test.inFlight, sent: test.sent}
		b.trips.Add(now, test.trip)
		for range test.waiting {
			b.waiting = append(b.waiting, &call{began: now})
		}
		if got := b.isDue(); got != test.want {
			t.Errorf("with %d calls in %d batches to a Redis at %v, %d waiting calls are sent: %v, want %v",
				test.sent, test.inFlight, test.trip, test.waiting, got, test.want)
		}
	}
}

func TestBatcher_ReturnsEachCallItsOwnResult(t *testing.T) {
	failed := errors.New("failed")
	b := &batcher{send: func(batch []*call) {
		for _, c := range batch {
			if c.mode == "fail" {
				c.reply.err = failed
			}
		}
	}}
	var wg sync.WaitGroup
	for i := range 200 {
		wg.Go(func() {
			c := &call{mode: "pass", deadline: time.Now().Add(patience)}
			if i%2 == 0 {
				c.mode = "fail"
			}
			if _, err := b.do(c); errors.Is(err, failed) != (i%2 == 0) {
				t.Errorf("call %d (%s): %v", i, c.mode, err)
			}
		})
	}
	wg.Wait()
}
