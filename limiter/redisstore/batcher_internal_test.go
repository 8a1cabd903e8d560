package redisstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/weir-dev/weir/test/fixture"
)

// gate is a Redis that answers a batch when it is told to.
type gate struct {
	mu      sync.Mutex
	batches [][]*call
	arrived chan int // batches, as they come
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

// ask sends n calls, which may take that long, at once.
func ask(b *batcher, n int, timeout time.Duration) (wait func() []error) {
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { _, errs[i] = b.do(&call{deadline: time.Now().Add(timeout)}) })
	}
	return func() []error { wg.Wait(); return errs }
}

// waitUntil waits until that many calls wait for a batch.
func waitUntil(t *testing.T, b *batcher, waiting int) {
	t.Helper()
	fixture.Await(t, fmt.Sprintf("%d calls wait", waiting), func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return len(b.waiting) == waiting
	})
}

func TestCallsThatComeTogetherTravelTogether(t *testing.T) {
	g := newGate()
	b := &batcher{send: g.send}
	var waits []func() []error
	for range maxInFlight { // each finds room and goes alone
		waits = append(waits, ask(b, 1, patience))
		if n := <-g.arrived; n != 1 {
			t.Fatalf("a batch of %d, want 1", n)
		}
	}
	waits = append(waits, ask(b, maxBatch+10, patience))
	waitUntil(t, b, maxBatch+10)
	g.open <- struct{}{}
	if n := <-g.arrived; n != maxBatch {
		t.Errorf("the next batch took %d, want %d", n, maxBatch)
	}
	g.open <- struct{}{}
	if n := <-g.arrived; n != 10 {
		t.Errorf("the last batch took %d, want 10", n)
	}
	close(g.open)
	for _, wait := range waits {
		if err := errors.Join(wait()...); err != nil {
			t.Error(err)
		}
	}
}

func TestACallWhoseTimeIsOverIsNotSentAnyMore(t *testing.T) {
	g := newGate()
	b := &batcher{send: g.send}
	var busy []func() []error
	for range maxInFlight {
		busy = append(busy, ask(b, 1, patience))
		<-g.arrived
	}
	for _, err := range ask(b, 3, 20*time.Millisecond)() {
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v, want that of the deadline", err)
		}
	}
	close(g.open)
	for _, wait := range busy {
		if err := errors.Join(wait()...); err != nil {
			t.Error(err)
		}
	}
	if len(g.batches) != maxInFlight {
		t.Errorf("%d batches were sent, want %d", len(g.batches), maxInFlight)
	}
}

func TestEveryCallGetsItsOwnAnswer(t *testing.T) {
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

func TestACallIsAnsweredByItsDeadlineThoughItsBatchIsNot(t *testing.T) {
	g := newGate()
	b := &batcher{send: g.send}
	var busy []func() []error
	for range maxInFlight {
		busy = append(busy, ask(b, 1, patience))
		<-g.arrived
	}
	hasty := ask(b, 1, 50*time.Millisecond)
	patient := ask(b, 1, patience)
	waitUntil(t, b, 2)
	g.open <- struct{}{}
	if n := <-g.arrived; n != 2 {
		t.Fatalf("a batch of %d, want the 2 that waited", n)
	}
	if err := hasty()[0]; !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v, want that of the deadline", err)
	}
	close(g.open)
	for _, wait := range append(busy, patient) {
		if err := errors.Join(wait()...); err != nil {
			t.Error(err)
		}
	}
}
