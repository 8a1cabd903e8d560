package redisstore

import (
	"context"
	"slices"
	"sync"
)

// Calls to one Redis share round trips: while so many batches are under way, calls wait for one to come back and then
// travel together. A call that finds Redis idle goes at once and alone.
const (
	maxFlying = 2
	maxBatch  = 64
)

// collector brings calls together.
type collector struct {
	// send asks Redis and puts an answer or an error into every call.
	send func([]*call)

	mu      sync.Mutex
	waiting []*call
	flying  int
}

// do returns when c has an answer, or ctx is done: then c may or may not have been counted, as with any call whose reply
// is lost.
func (b *collector) do(ctx context.Context, c *call) error {
	c.done = make(chan struct{})
	b.mu.Lock()
	b.waiting = append(b.waiting, c)
	batch := b.board()
	b.mu.Unlock()
	if batch != nil {
		b.fly(batch)
	}
	select {
	case <-c.done:
		return c.err
	default:
	}
	select {
	case <-c.done:
		return c.err
	case <-ctx.Done():
		b.giveUp(c)
		return ctx.Err()
	}
}

// board takes the next batch, nil if there is none or enough are under way. The lock is held.
func (b *collector) board() []*call {
	if len(b.waiting) == 0 || b.flying >= maxFlying {
		return nil
	}
	n := min(len(b.waiting), maxBatch)
	batch := b.waiting[:n:n]
	b.waiting = b.waiting[n:]
	b.flying++
	return batch
}

// fly sends one batch, and sees to it that the calls which came meanwhile fly next.
func (b *collector) fly(batch []*call) {
	b.send(batch)
	b.mu.Lock()
	b.flying--
	next := b.board()
	b.mu.Unlock()
	if next != nil {
		go b.fly(next)
	}
	for _, c := range batch {
		close(c.done)
	}
}

// giveUp makes sure that a call which still waits is never sent.
func (b *collector) giveUp(c *call) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting = slices.DeleteFunc(b.waiting, func(w *call) bool { return w == c })
}
