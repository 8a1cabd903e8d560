package redisstore

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/redisclient"
)

// OutageObserver is notified of outages of Redis. One goroutine per Redis node calls its methods.
type OutageObserver interface {
	// Unavailable reports that the node at address failed a call and then a probe.
	Unavailable(address string, cause error)
	// Recovering reports that the node answers probes again, and how long it was unavailable. Until Recovering returns nil,
	// only [Store.ReportUsage] reaches the node. An error means that the node failed again.
	Recovering(ctx context.Context, unavailableFor time.Duration) error
	// Recovered reports that all calls reach the node again.
	Recovered(address string)
}

// The pauses between probes of an unavailable node. The first probe follows the failure without a pause. Each pause is
// multiplied by a random factor from 0.5 to 1.5, because many limiters can be waiting for the same node.
const (
	firstPause = 25 * time.Millisecond
	maxPause   = 120 * time.Millisecond
)

// probeKeyTTL is the time to live of the key that a probe writes.
const probeKeyTTL = time.Second

// The states of a breaker. Closed → open: a round trip failed. Open → recovering: a probe succeeded. Recovering → open: the
// recovery failed. Recovering → closed: it succeeded.
const (
	closed     int32 = iota
	open             // rejects all calls, and probes the node in the background
	recovering       // accepts only calls that report usage
)

// breaker is a circuit breaker for one Redis node: it rejects calls from the first round trip that fails until a probe
// in the background succeeds. A nil breaker accepts all calls.
type breaker struct {
	*breakerConfig

	address string

	state      atomic.Int32
	recoveries atomic.Int64 // number of transitions to closed
	outage     sync.Mutex   // held during an outage, until the observer knows that it is over: the next outage waits
}

// breakerConfig is what the breakers of a Store share.
type breakerConfig struct {
	probe    func(ctx context.Context, key string) error
	observer OutageObserver
	ctx      context.Context //nolint:containedctx // it ends the probes
	timeout  time.Duration   // of a call
	tripped  atomic.Int64    // number of breakers that are not closed
}

func (c *breakerConfig) newBreaker(address string) *breaker {
	return &breaker{breakerConfig: c, address: address}
}

// rejects reports whether calls for that purpose do not reach the node.
func (b *breaker) rejects(p purpose) bool {
	if b == nil {
		return false
	}
	switch b.state.Load() {
	case closed:
		return false
	case recovering:
		return p != reportsUsage
	default:
		return true
	}
}

// send sends a batch, and opens the breaker if the round trip fails. It returns false, and sends nothing, if the breaker
// rejects all calls of the batch.
//
// A timeout is evidence of an outage only if the node had half of the timeout of a call: a call across slots may have spent
// its time on another node.
func (b *breaker) send(batch []*call, send func([]*call)) (sent bool) {
	if b == nil {
		send(batch)
		return true
	}
	if !slices.ContainsFunc(batch, func(c *call) bool { return !b.rejects(c.purpose) }) {
		return false
	}
	recoveries := b.recoveries.Load()
	late := time.Until(latestDeadline(batch)) < b.timeout/2
	send(batch)
	if err := outageError(batch); err != nil && (!late || !isTimeout(err)) {
		b.trip(recoveries, batch[0].key(), err)
	}
	return true
}

func isTimeout(err error) bool {
	var timeout interface{ Timeout() bool }
	return errors.As(err, &timeout) && timeout.Timeout()
}

// trip opens the breaker after a round trip that began after that number of recoveries. A late failure of a round trip from
// before a recovery does not open it. key is one of the round trip: probes use the same node.
func (b *breaker) trip(recoveries int64, key string, cause error) {
	if b.recoveries.Load() != recoveries || !b.state.CompareAndSwap(closed, open) {
		return
	}
	b.tripped.Add(1)
	go b.probeUntilRecovered(key, cause, time.Now())
}

// probeUntilRecovered closes the breaker when the node is usable again. If the first probe succeeds, the observer is not
// notified: the failure was a broken connection, not an outage.
func (b *breaker) probeUntilRecovered(key string, cause error, began time.Time) {
	b.outage.Lock()
	defer b.outage.Unlock()
	reported := false
	for pause := time.Duration(0); ; pause = min(max(2*pause, firstPause), maxPause) {
		if !sleep(b.ctx, jittered(pause)) {
			return
		}
		err := b.recover(key, time.Since(began))
		if err == nil {
			break
		}
		b.state.Store(open)
		if !reported {
			b.observer.Unavailable(b.address, errors.Join(cause, err))
			reported = true
		}
	}
	b.recoveries.Add(1)
	b.state.Store(closed)
	b.tripped.Add(-1)
	if reported {
		b.observer.Recovered(b.address)
	}
}

// recover probes the node, and then lets the observer report what happened during the outage.
func (b *breaker) recover(key string, unavailableFor time.Duration) error {
	if err := b.probe(b.ctx, key); err != nil {
		return err
	}
	b.state.Store(recovering)
	return b.observer.Recovering(b.ctx, unavailableFor)
}

// sleep returns false if ctx ends first.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// jittered returns a random duration from d/2 to 3d/2.
func jittered(d time.Duration) time.Duration {
	return time.Duration((0.5 + rand.Float64()) * float64(d))
}

// key returns one key of the call, "" if it has no charges.
func (c *call) key() string {
	if len(c.charges) == 0 {
		return ""
	}
	return c.charges[0].Key
}

// outageError returns the first error of a batch if all of its calls failed because Redis is unusable, else nil.
func outageError(batch []*call) error {
	for _, c := range batch {
		if !redisclient.IsOutage(c.reply.err) {
			return nil
		}
	}
	return batch[0].reply.err
}

// EnableBreaker adds a circuit breaker to each Redis node of the Store: after a failure, calls to the node fail immediately
// with [redisclient.ErrUnavailable] and are not counted, while the Store probes the node in the background until ctx ends.
// Call it before the Store is used.
func (s *Store) EnableBreaker(ctx context.Context, observer OutageObserver) {
	s.batchers.breaker = &breakerConfig{probe: s.probe, observer: observer, ctx: ctx, timeout: s.timeout}
}

// Unavailable reports whether calls for the counter at key are rejected at the moment.
func (s *Store) Unavailable(key string) bool {
	c := s.batchers.breaker
	if c == nil || c.tripped.Load() == 0 {
		return false
	}
	return s.batchers.forKey(time.Now().Add(s.timeout), key).breaker.rejects(decides)
}

// probe returns nil if the node with key accepts writes and runs scripts within the timeout of a call. Connecting can take
// longer.
func (s *Store) probe(ctx context.Context, key string) error {
	connect, cancel := context.WithTimeout(ctx, max(s.timeout, redisclient.MinDialTimeout))
	defer cancel()
	rdb := s.client.Redis()
	get := redis.NewStringCmd(connect, "get", key+":probe") // on a cluster it is sent to the node of the slot
	if err := rdb.Process(connect, get); err != nil && !errors.Is(err, redis.Nil) {
		s.client.RefreshTopology(connect, err)
		return redisclient.WithKind(err)
	}
	write, cancelWrite := context.WithTimeout(ctx, s.timeout)
	defer cancelWrite()
	err := rdb.Set(write, key+":probe", "", probeKeyTTL).Err()
	s.client.RefreshTopology(write, err)
	if err != nil {
		return redisclient.WithKind(err)
	}
	peek := &call{mode: modePeek, charges: []limiter.Charge{{Key: key + ":unused", Limit: probeLimit(), Cost: 1}}}
	return s.runScript(write, []*call{peek}).Err()
}

// probeLimit is the limit that a probe peeks at. Its counter is never spent.
func probeLimit() limiter.Limit {
	limit, err := limiter.NewLimit(limiter.FixedWindow, 1, time.Second)
	if err != nil {
		panic(err) // the arguments are valid
	}
	return limit
}
