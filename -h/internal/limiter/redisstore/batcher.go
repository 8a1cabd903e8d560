package redisstore

import (
	"errors"
	"fmt"
	"math/bits"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/go/internal/limiter"
	"github.com/weir-dev/weir/go/internal/limiter/redisclient"
	"github.com/weir-dev/weir/go/internal/limiter/redisstore/roundtrip"
	"github.com/weir-dev/weir/go/internal/limiter/tracing"
)

// Calls to one Redis node share round trips: while enough batches are in flight, calls wait for a reply, and are then sent
// together. A call that finds no batch in flight is sent immediately and alone.
const maxBatch = 64

// maxWork bounds what one run of a script does for the calls of a batch, because Redis answers nothing else meanwhile. A charge is 1, one on a log that
// is read in place 4. A call that exceeds it is sent alone.
const (
	maxWork     = 256
	inPlaceWork = 4
)

func (c *call) work() int {
	sum := len(c.charges)
	for i := range c.charges {
		if isReadInPlace(c.charges[i]) {
			sum += inPlaceWork - 1
		}
	}
	return sum
}

// longWait is how much longer than the newest call the oldest one can wait before they are sent in the last batch that can be in flight, although
// it is small. It is more than the way to a near Redis: the batch in flight is slow, and can be lost.
const longWait = time.Millisecond

// lateShare is the share of the time of a call after which a waiting call shows that this process cannot keep up, as a divisor.
const lateShare = 4

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
	began    time.Time
	deadline time.Time
	purpose  purpose
	span     *tracing.Span // nil unless the request is traced
	load     int           // class of what the connection of the caller has in progress

	reply  result      // from Redis; only the goroutine that sends the call uses it
	waits  bool        // for result; the caller does not send the call itself
	result chan result // receives one result for a caller that waits; nil until one does
}

// loadClasses is the number of classes of loadClass.
const loadClasses = 12

// loadClass returns the class of a connection with that many requests in progress: the larger, the more. Requests of a connection that has about the
// same number in progress for some time are in one class.
func loadClass(inProgress int64) int {
	return min(bits.Len64(uint64(max(0, inProgress))), loadClasses-1)
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
//
// For a process that cannot keep up, the batcher decides which calls reach Redis in time. Calls of connections with little in progress are first, so
// that one that asks for too much delays its own calls. Among them the newest calls are first, so that most calls are decided early instead of
// all of them late. Calls that cannot be decided before their deadline are dropped. One batch of late calls is no backlog: it is sent nevertheless.
// Dropped calls fail with [limiter.ErrOverloaded], or with an error of [redisclient.KindPool] if Redis is so slow that a process that keeps up
// could not decide them either. They have not run, and are no evidence of an outage.
type batcher struct {
	// send sends a batch, and stores the reply in every call. It returns by their deadlines, or as long after them as this
	// process is late.
	send    func([]*call)
	node    string   // in spans
	meter   Meter    // nil: no measurements
	breaker *breaker // nil: no breaker

	mu       sync.Mutex
	waiting  []*call // oldest first
	inFlight int     // batches
	sent     int     // calls in these batches
	trips    roundtrip.Times
}

// do returns the reply to c. A call that was sent waits for its batch, even after its deadline: only the batch knows
// whether Redis has answered.
func (b *batcher) do(c *call) ([]limiter.Decision, error) {
	if b.breaker != nil && b.breaker.keys != nil {
		if b.breaker.keys.RejectsAny(c.charges) || b.breaker.rejectsNeed(c.purpose, c.charges) {
			return nil, redisclient.ErrUnavailable
		}
		if b.breaker.keys.Isolates(c.charges) && b.doAlone(c) {
			return c.reply.decisions, c.reply.err
		}
	}
	b.mu.Lock()
	if b.breaker.rejects(c.purpose) {
		b.mu.Unlock()
		return nil, redisclient.ErrUnavailable
	}
	if b.inFlight == 0 { // so no call is waiting
		b.inFlight++
		b.sent++
		b.mu.Unlock()
		b.sendBatch([]*call{c})
		return c.reply.decisions, c.reply.err
	}
	if c.waits = true; c.result == nil {
		c.result = make(chan result, 1)
	}
	b.waiting = append(b.waiting, c)
	if b.isDue() {
		// A reply has just released many callers, and this may be the first to call again: let the others join its batch.
		b.mu.Unlock()
		runtime.Gosched()
		b.mu.Lock()
	}
	batch := b.takeBatch()
	b.mu.Unlock()
	if batch != nil {
		go b.sendBatch(batch)
	}
	r := <-c.result
	return r.decisions, r.err
}

// doAlone sends a call on a counter whose calls failed recently, so that it cannot hold up others. It returns false, and sends nothing, if as many
// such calls as possible are in flight.
func (b *batcher) doAlone(c *call) (sent bool) {
	began := time.Now()
	if !b.breaker.sendAlone(c, b.send) {
		return false
	}
	if batch := []*call{c}; !errors.Is(c.reply.err, redisclient.ErrUnavailable) {
		b.measure(batch, began, time.Now())
	}
	return true
}

// measure reports a batch that was sent.
func (b *batcher) measure(batch []*call, began, ended time.Time) {
	if b.meter != nil {
		b.meter.Sent(Batch{Began: began, Ended: ended, calls: batch})
	}
	b.trace(batch, began, ended)
}

// isDue reports whether the waiting calls are sent now. For each call, Redis and this process take half as long in a full batch as in one of 16
// calls, so the last batch that can be in flight is at least as large as the others are on average. Then Redis has as much to do in one batch as
// this process has for the replies to another. The caller holds the lock.
func (b *batcher) isDue() bool {
	n, most := len(b.waiting), b.trips.MaxInFlight()
	if n == 0 || b.inFlight >= most {
		return false
	}
	return b.inFlight < most-1 || n*b.inFlight >= b.sent || b.waiting[n-1].began.Sub(b.waiting[0].began) > longWait
}

// takeBatch removes the next batch from the waiting calls. It returns nil if they are not sent now. The caller holds the lock.
func (b *batcher) takeBatch() []*call {
	if !b.isDue() {
		return nil
	}
	now := time.Now()
	b.dropHopeless(now)
	if len(b.waiting) == 0 {
		return nil
	}
	var batch []*call
	if len(b.waiting) > maxBatch {
		batch = b.takeOfBacklog(b.waiting[0].isLate(now))
	} else {
		n := fitting(b.waiting)
		batch, b.waiting = b.waiting[:n:n], b.waiting[n:]
	}
	b.inFlight++
	b.sent += len(batch)
	return batch
}

// takeOfBacklog removes a batch from more calls than it can have: those of the connections with the least in progress, among them the newest or the
// oldest ones. The caller holds the lock.
func (b *batcher) takeOfBacklog(newest bool) []*call {
	var counts [loadClasses]int
	for _, c := range b.waiting {
		counts[c.load]++
	}
	last, room := 0, maxBatch // the batch has room for some calls of the last class
	for room > counts[last] {
		room -= counts[last]
		last++
	}
	chosen := make([]int, 0, maxBatch) // of waiting
	for i := range b.waiting {
		if newest {
			i = len(b.waiting) - 1 - i
		}
		switch load := b.waiting[i].load; {
		case load == last && room > 0:
			room--
			fallthrough
		case load < last:
			chosen = append(chosen, i)
		}
	}
	slices.SortStableFunc(chosen, func(i, j int) int { return b.waiting[i].load - b.waiting[j].load })
	batch := make([]*call, 0, maxBatch)
	for _, i := range chosen {
		batch = append(batch, b.waiting[i])
	}
	chosen = chosen[:fitting(batch)]
	slices.Sort(chosen) // the oldest first
	batch = batch[:0]
	for _, i := range chosen {
		batch = append(batch, b.waiting[i])
		b.waiting[i] = nil
	}
	b.waiting = slices.DeleteFunc(b.waiting, func(c *call) bool { return c == nil })
	return batch
}

// fitting returns how many of the first calls one batch can have, at least one.
func fitting(calls []*call) int {
	n, work := 0, 0
	for n < min(len(calls), maxBatch) {
		if work += calls[n].work(); n > 0 && work > maxWork {
			break
		}
		n++
	}
	return n
}

// dropHopeless fails the waiting calls that Redis can no longer decide before their deadline, except calls that can be prolonged. The
// caller holds the lock.
func (b *batcher) dropHopeless(now time.Time) {
	trip := b.trips.Shortest()
	soonest := now.Add(trip)
	isBacklog := len(b.waiting) > maxBatch
	b.waiting = slices.DeleteFunc(b.waiting, func(c *call) bool {
		if !c.deadline.Before(soonest) {
			return false
		}
		err := c.notSent(now, trip)
		if errors.Is(err, limiter.ErrOverloaded) && !isBacklog && c.prolong(now, trip) {
			return false
		}
		c.settle(result{err: err})
		return true
	})
}

// notSent returns why a call was not sent. A process that keeps up sends a call when the next reply arrives, after one round trip
// at most. If the call does not have the time for another one, Redis is too slow.
func (c *call) notSent(now time.Time, trip time.Duration) error {
	if now.Sub(c.began) > trip+c.timeout()/maxLateness {
		return limiter.ErrOverloaded
	}
	return redisclient.WithKind(fmt.Errorf("not sent: Redis takes %v to reply: %w", trip, redis.ErrPoolTimeout))
}

// prolong gives a call half of its timeout from now. It returns false if that is not enough for a round trip. After a pause, of this
// process or of Redis, the next batch takes all waiting calls, and their callers get late decisions instead of errors.
func (c *call) prolong(now time.Time, trip time.Duration) bool {
	if trip > c.timeout()/2 {
		return false
	}
	c.deadline = now.Add(c.timeout() / 2)
	return true
}

// isLate reports whether a waiting call has waited for too long for a process that keeps up.
func (c *call) isLate(now time.Time) bool {
	return now.Sub(c.began) > c.timeout()/lateShare
}

// timeout is that of a call which has not been prolonged.
func (c *call) timeout() time.Duration { return c.deadline.Sub(c.began) }

// sendBatch sends one batch, and then starts the next one if calls are waiting.
func (b *batcher) sendBatch(batch []*call) {
	began := time.Now()
	sent := b.breaker.send(batch, b.send)
	now := time.Now()
	if sent {
		b.measure(batch, began, now)
	}
	b.mu.Lock()
	b.inFlight--
	b.sent -= len(batch)
	if sent {
		b.trips.Add(now, now.Sub(began))
	}
	b.waiting = slices.DeleteFunc(b.waiting, func(c *call) bool {
		rejected := b.breaker.rejects(c.purpose) ||
			b.breaker != nil && (b.breaker.keys.RejectsAny(c.charges) || b.breaker.rejectsNeed(c.purpose, c.charges))
		if rejected {
			c.settle(result{err: redisclient.ErrUnavailable})
		}
		return rejected
	})
	next := b.takeBatch()
	b.mu.Unlock()
	for _, c := range batch {
		if !sent {
			c.reply.err = redisclient.ErrUnavailable
		}
		c.settle(c.reply)
	}
	if next != nil {
		go b.sendBatch(next)
	}
}

// trace adds the round trip of a batch to the traces of its calls. It is called before the callers get their results.
func (b *batcher) trace(batch []*call, began, ended time.Time) {
	var traced []*tracing.Span
	for _, c := range batch {
		if c.span != nil {
			traced = append(traced, c.span)
		}
	}
	if traced == nil {
		return
	}
	trip := tracing.RoundTrip{Began: began, Ended: ended, Node: b.node, Calls: len(batch)}
	if err := batch[0].reply.err; err != nil {
		trip.ErrorKind = limiter.ErrorKind(err)
	}
	trip.Record(traced)
}

// settle sends the caller its result. It is called once for a call. The caller may use the call for another one then.
func (c *call) settle(r result) {
	if c.waits {
		c.result <- r
	}
}
