package redisstore

import (
	"errors"
	"fmt"
	"sync"
	"testing"
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

func TestBatcher_SendsWaitingCallsTogether(t *testing.T) {
	g := newGate()
	b := &batcher{send: g.send}
	waits := []func() []error{callConcurrently(b, 1)}
	if n := <-g.arrived; n != 1 {
		t.Fatalf("the first batch has %d calls, want 1", n)
	}
	waits = append(waits, callConcurrently(b, maxBatch-1))
	awaitWaiting(t, b, maxBatch-1)
	waits = append(waits, callConcurrently(b, 1))
	if n := <-g.arrived; n != maxBatch {
		t.Fatalf("while one batch is in flight, a batch of %d calls is sent, want %d", n, maxBatch)
	}
	waits = append(waits, callConcurrently(b, maxBatch+10))
	awaitWaiting(t, b, maxBatch+10)
	for _, step := range []struct{ replies, next int }{{1, maxBatch}, {2, 10}} { // the last one has to wait for both batches in flight
		for range step.replies {
			g.open <- struct{}{}
		}
		if n := <-g.arrived; n != step.next {
			t.Errorf("the next batch has %d calls, want %d", n, step.next)
		}
	}
	close(g.open)
	for _, wait := range waits {
		if err := errors.Join(wait()...); err != nil {
			t.Error(err)
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
