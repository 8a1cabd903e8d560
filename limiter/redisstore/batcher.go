package redisstore

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/redisclient"
)

// Calls to one Redis node share round trips: while maxInFlight batches are in flight, calls wait for a reply, and are then
// sent together. A call that finds no batch in flight is sent immediately and alone.
const (
	maxInFlight = 2
	maxBatch    = 64
)

// purpose is why a call is made. The breaker of a recovering Redis accepts only calls that report usage.
type purpose int

const (
	decides purpose = iota
	reportsUsage
)

// call is one request to the spend script.
type call struct {
	mode     string // modeSpend or modePeek
	charges  []limiter.Charge
	deadline time.Time
	purpose  purpose

	reply   result      // from Redis; only the goroutine that sends the call uses it
	result  chan result // receives one result for the caller; nil if the caller sends the call itself
	settled bool        // result has received; the lock of the batcher guards it
}

// latestDeadline returns the latest deadline of the calls of a batch.
func latestDeadline(batch []*call) time.Time {
	latest := batch[0].deadline
	for _, c := range batch[1:] {
		if c.deadline.After(latest) {
			latest = c.deadline
		}
	}
	return latest
}

// result is the outcome of a call.
type result struct {
	decisions []limiter.Decision
	err       error
}

// batcher sends calls to one Redis node in batches. Its zero value with send is ready to use.
type batcher struct {
	// send sends a batch, and stores the reply in every call. It returns by their deadlines.
	send    func([]*call)
	breaker *breaker // nil: no breaker

	mu       sync.Mutex
	waiting  []*call
	inFlight [][]*call
	timer    *time.Timer // calls expire; nil until first needed
	timerAt  time.Time   // when timer fires, no later than the earliest deadline; zero if it is not set
}

// do returns the reply to c, or an error when its deadline expires. Then c may have been counted, as any call whose reply
// is lost.
func (b *batcher) do(c *call) ([]limiter.Decision, error) {
	b.mu.Lock()
	if b.breaker.rejects(c.purpose) {
		b.mu.Unlock()
		return nil, redisclient.ErrUnavailable
	}
	if len(b.inFlight) == 0 { // so no call is waiting
		b.waiting = append(b.waiting, c)
		batch := b.takeBatch()
		b.mu.Unlock()
		b.sendBatch(batch)
		return c.reply.decisions, c.reply.err
	}
	c.result = make(chan result, 1)
	b.waiting = append(b.waiting, c)
	if len(b.inFlight) < maxInFlight {
		// A reply has just released many callers, and this may be the first to call again: let the others join its batch.
		b.mu.Unlock()
		runtime.Gosched()
		b.mu.Lock()
	}
	b.setTimer(c.deadline)
	batch := b.takeBatch()
	b.mu.Unlock()
	if batch != nil {
		go b.sendBatch(batch)
	}
	r := <-c.result
	return r.decisions, r.err
}

// takeBatch removes the next batch from the waiting calls. It returns nil if no call waits or enough batches are in flight.
// The caller holds the lock.
func (b *batcher) takeBatch() []*call {
	if len(b.waiting) == 0 || len(b.inFlight) >= maxInFlight {
		return nil
	}
	n := min(len(b.waiting), maxBatch)
	batch := b.waiting[:n:n]
	b.waiting = b.waiting[n:]
	b.inFlight = append(b.inFlight, batch)
	return batch
}

// sendBatch sends one batch, and then starts the next one if calls are waiting.
func (b *batcher) sendBatch(batch []*call) {
	sent := b.breaker.send(batch, b.send)
	b.mu.Lock()
	b.inFlight = slices.DeleteFunc(b.inFlight, func(other []*call) bool { return other[0] == batch[0] })
	b.waiting = slices.DeleteFunc(b.waiting, func(c *call) bool {
		rejected := b.breaker.rejects(c.purpose)
		if rejected {
			c.settle(result{err: redisclient.ErrUnavailable})
		}
		return rejected
	})
	next := b.takeBatch()
	for _, c := range batch {
		if !sent {
			c.reply.err = redisclient.ErrUnavailable
		}
		c.settle(c.reply)
	}
	b.mu.Unlock()
	if next != nil {
		go b.sendBatch(next)
	}
}

// settle sends the caller its result, unless it already has one. The caller holds the lock of the batcher.
func (c *call) settle(r result) {
	if c.settled || c.result == nil {
		return
	}
	c.settled = true
	c.result <- r
}

// setTimer makes expire run at that time, or earlier. The caller holds the lock.
func (b *batcher) setTimer(at time.Time) {
	if !b.timerAt.IsZero() && !at.Before(b.timerAt) {
		return
	}
	b.timerAt = at
	if b.timer == nil {
		b.timer = time.AfterFunc(time.Until(at), b.expire)
		return
	}
	b.timer.Reset(time.Until(at))
}

// expire fails the calls whose deadline is over. Those that are still waiting are never sent.
func (b *batcher) expire() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.timerAt = time.Time{}
	now := time.Now()
	b.waiting = slices.DeleteFunc(b.waiting, func(c *call) bool { return c.expired(now) })
	pending := slices.Clone(b.waiting)
	for _, batch := range b.inFlight {
		for _, c := range batch {
			if !c.expired(now) {
				pending = append(pending, c)
			}
		}
	}
	if len(pending) > 0 {
		b.setTimer(slices.MinFunc(pending, func(x, y *call) int { return x.deadline.Compare(y.deadline) }).deadline)
	}
}

// expired reports whether the deadline of a call is over, and settles it in that case. The caller holds the lock of the
// batcher.
func (c *call) expired(now time.Time) bool {
	if now.Before(c.deadline) {
		return false
	}
	c.settle(result{err: context.DeadlineExceeded})
	return true
}
