package redisstore

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/weir-dev/weir/limiter"
)

// Calls to one Redis share round trips: while so many batches are under way, calls wait for one to come back and then
// travel together. A call that finds Redis idle goes at once and alone.
const (
	maxFlying = 2
	maxBatch  = 64
)

// call is one request to the script.
type call struct {
	mode     string // "spend" or "peek"
	charges  []limiter.Charge
	deadline time.Time
	repays   bool // it reaches a Redis that is about to be back

	answer  outcome      // of Redis; for who sends the call
	outcome chan outcome // what its caller gets, once; nil if it sends the call itself
	settled bool         // the outcome is there; the collector's lock guards it
}

// outcome is what became of a call.
type outcome struct {
	decisions []limiter.Decision
	err       error
}

// collector brings calls to one Redis together. Its zero value but for send is ready.
type collector struct {
	// send asks Redis and puts an answer into every call. It returns by their deadlines.
	send    func([]*call)
	breaker *breaker // nil for none

	mu      sync.Mutex
	waiting []*call
	flying  [][]*call
	alarm   *time.Timer // nil before it was needed
	rings   time.Time   // when the alarm will, at the latest by the earliest deadline; zero if it will not
}

// do returns when there is an answer to c, or its deadline is over: then c may or may not have been counted, as with any
// call whose reply is lost.
func (b *collector) do(c *call) ([]limiter.Decision, error) {
	b.mu.Lock()
	if b.breaker.refuses(c.repays) {
		b.mu.Unlock()
		return nil, errAway
	}
	if len(b.flying) == 0 { // then nothing waits
		b.waiting = append(b.waiting, c)
		alone := b.board()
		b.mu.Unlock()
		b.fly(alone)
		return c.answer.decisions, c.answer.err
	}
	c.outcome = make(chan outcome, 1)
	b.waiting = append(b.waiting, c)
	if len(b.flying) < maxFlying {
		// A batch that came back has set off many callers, of which this may be the first: let the others come along.
		b.mu.Unlock()
		runtime.Gosched()
		b.mu.Lock()
	}
	b.arm(c.deadline)
	batch := b.board()
	b.mu.Unlock()
	if batch != nil {
		go b.fly(batch)
	}
	o := <-c.outcome
	return o.decisions, o.err
}

// board takes the next batch, nil if there is none or enough are under way. The lock is held.
func (b *collector) board() []*call {
	if len(b.waiting) == 0 || len(b.flying) >= maxFlying {
		return nil
	}
	n := min(len(b.waiting), maxBatch)
	batch := b.waiting[:n:n]
	b.waiting = b.waiting[n:]
	b.flying = append(b.flying, batch)
	return batch
}

// fly sends one batch, and sees to it that the calls which came meanwhile fly next.
func (b *collector) fly(batch []*call) {
	made := b.breaker.watch(batch[0].key(), func() error {
		b.send(batch)
		return failure(batch)
	})
	b.mu.Lock()
	b.flying = slices.DeleteFunc(b.flying, func(f []*call) bool { return f[0] == batch[0] })
	b.waiting = slices.DeleteFunc(b.waiting, func(c *call) bool {
		refused := b.breaker.refuses(c.repays)
		if refused {
			c.settle(outcome{err: errAway})
		}
		return refused
	})
	next := b.board()
	for _, c := range batch {
		if !made {
			c.answer.err = errAway
		}
		c.settle(c.answer)
	}
	b.mu.Unlock()
	if next != nil {
		go b.fly(next)
	}
}

// key is one that the call is about, "" for none.
func (c *call) key() string {
	if len(c.charges) == 0 {
		return ""
	}
	return c.charges[0].Key
}

// settle gives a caller its outcome, the first one. The lock is held.
func (c *call) settle(o outcome) {
	if c.settled || c.outcome == nil {
		return
	}
	c.settled = true
	c.outcome <- o
}

// arm makes the alarm ring by then. The lock is held.
func (b *collector) arm(at time.Time) {
	if !b.rings.IsZero() && !at.Before(b.rings) {
		return
	}
	b.rings = at
	if b.alarm == nil {
		b.alarm = time.AfterFunc(time.Until(at), b.ring)
		return
	}
	b.alarm.Reset(time.Until(at))
}

// ring gives up the calls whose deadline is over. One that still waits will never be sent.
func (b *collector) ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rings = time.Time{}
	now := time.Now()
	b.waiting = slices.DeleteFunc(b.waiting, func(c *call) bool { return c.over(now) })
	open := slices.Clone(b.waiting)
	for _, batch := range b.flying {
		for _, c := range batch {
			if !c.over(now) {
				open = append(open, c)
			}
		}
	}
	if len(open) > 0 {
		b.arm(slices.MinFunc(open, func(x, y *call) int { return x.deadline.Compare(y.deadline) }).deadline)
	}
}

// over settles a call whose deadline is over, and says whether it was. The lock is held.
func (c *call) over(now time.Time) bool {
	if now.Before(c.deadline) {
		return false
	}
	c.settle(outcome{err: context.DeadlineExceeded})
	return true
}
