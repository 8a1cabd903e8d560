package redisstore

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"

	"github.com/weir-dev/weir/limiter"
)

// OutageObserver is told when a Redis is away, and back. Its methods are called from a goroutine per Redis.
type OutageObserver interface {
	// Unavailable: the Redis at an address has failed a call and does not answer a probe.
	Unavailable(address string, cause error)
	// Recovering: it answers probes again, after so long. Until Recovering returns nil, only [Store.ReportUsage] reaches it; an error
	// says that it has failed again.
	Recovering(ctx context.Context, away time.Duration) error
	// Recovered: calls reach it again.
	Recovered(address string)
}

// errAway is the error of calls that are not made. They are not counted.
var errAway = withKind(errAwayCause)

var errAwayCause = errors.New("not asked: Redis has failed and not answered a probe since")

// The pauses between probes of a Redis that is away: none before the first; each is half as long or as long again as it
// says, by chance, for many limiters wait for the same Redis.
const (
	firstPause = 25 * time.Millisecond
	maxPause   = 120 * time.Millisecond
)

// probeLife is how long the key of a probe lives.
const probeLife = time.Second

// breaker keeps calls from one Redis that does not answer: from the first round trip that fails until a probe in the
// background is answered.
type breaker struct {
	circuit *gobreaker.CircuitBreaker[struct{}]
	address string
	probe   func(ctx context.Context, key string) error
	outages OutageObserver
	done    context.Context //nolint:containedctx // of the Store's guard: it ends the probes
	total   *atomic.Int64   // breakers of the Store that are away

	away    atomic.Bool // the circuit is not closed
	answers atomic.Bool // it has answered a probe, and is about to be trusted
	probing atomic.Bool
}

func (g *guard) newBreaker(address string) *breaker {
	b := &breaker{address: address, probe: g.probe, outages: g.outages, done: g.done, total: &g.away}
	b.circuit = gobreaker.NewCircuitBreaker[struct{}](gobreaker.Settings{
		Name:        address,
		ReadyToTrip: func(gobreaker.Counts) bool { return true }, // a probe finds out at once whether it was a blip
		Timeout:     time.Nanosecond,                             // the pauses between probes are ours
		OnStateChange: func(_ string, from, to gobreaker.State) {
			b.away.Store(to != gobreaker.StateClosed)
			switch {
			case from == gobreaker.StateClosed:
				b.total.Add(1)
			case to == gobreaker.StateClosed:
				b.total.Add(-1)
			}
		},
	})
	return b
}

// guard makes the breakers of a Store.
type guard struct {
	probe   func(ctx context.Context, key string) error
	outages OutageObserver
	done    context.Context //nolint:containedctx // see breaker
	away    atomic.Int64    // breakers that are
}

// refuses says whether calls do not reach this Redis for now. Those that repay are taken as soon as it answers.
func (b *breaker) refuses(repays bool) bool {
	return b != nil && b.away.Load() && (!repays || !b.answers.Load())
}

// watch makes a round trip unless Redis has gone away meanwhile: then it is false. The error of the trip, nil for one that
// says nothing against Redis, opens the circuit. key is one of the trip's.
func (b *breaker) watch(key string, trip func() error) (made bool) {
	if b == nil || b.away.Load() { // then it repays
		_ = trip()
		return true
	}
	_, err := b.circuit.Execute(func() (struct{}, error) {
		made = true
		return struct{}{}, trip()
	})
	if err != nil {
		b.wake(key, err)
	}
	return made
}

// wake starts the probes if they are not under way.
func (b *breaker) wake(key string, cause error) {
	if b.away.Load() && b.probing.CompareAndSwap(false, true) {
		go b.probeUntilBack(key, cause)
	}
}

func (b *breaker) probeUntilBack(key string, cause error) {
	began, told := time.Now(), false
	for wait := time.Duration(0); ; wait = min(max(2*wait, firstPause), maxPause) {
		if !pause(b.done, jittered(wait)) {
			return
		}
		_, err := b.circuit.Execute(func() (struct{}, error) { return struct{}{}, b.comeBack(key, time.Since(began)) })
		if err == nil {
			break
		}
		if !told {
			b.outages.Unavailable(b.address, errors.Join(cause, err))
			told = true
		}
	}
	if told {
		b.outages.Recovered(b.address)
	}
	b.probing.Store(false)
	b.wake(key, cause) // a call may have failed since, and found the probes under way
}

func (b *breaker) comeBack(key string, away time.Duration) error {
	if err := b.probe(b.done, key); err != nil {
		return err
	}
	b.answers.Store(true)
	defer b.answers.Store(false)
	return b.outages.Recovering(b.done, away)
}

// jittered is a random time about d.
func jittered(d time.Duration) time.Duration {
	return time.Duration((0.5 + rand.Float64()) * float64(d))
}

// failure is what a round trip says against the Redis that it went to: nil if any of the calls was answered, or was
// refused for what it asked.
func failure(batch []*call) error {
	var first error
	for _, c := range batch {
		if !againstRedis(c.answer.err) {
			return nil
		}
		if first == nil {
			first = c.answer.err
		}
	}
	return first
}

// againstRedis says whether an error means that its Redis cannot be used, and not just this call.
func againstRedis(err error) bool {
	switch kindOf(err) {
	case "", kindCanceled, kindMoving, kindCrossSlot, kindOther:
		return false
	default:
		return true
	}
}

// Guard makes the Store stop asking a Redis that fails: calls that need it fail at once, uncounted, with an error of kind
// "away", while it is probed in the background until ctx is done. On a Redis Cluster every node is on its own. Call it
// before the Store is used.
func (s *Store) Guard(ctx context.Context, outages OutageObserver) {
	s.calls.guard = &guard{probe: s.probe, outages: outages, done: ctx}
}

// Unavailable says whether the counter at key cannot be asked for the moment.
func (s *Store) Unavailable(key string) bool {
	g := s.calls.guard
	return g != nil && g.away.Load() > 0 && s.calls.of(time.Now().Add(s.timeout), key).breaker.refuses(false)
}

// probedLimit is what a probe looks at: nobody spends of it.
func probedLimit() limiter.Limit {
	limit, err := limiter.NewLimit(limiter.FixedWindow, 1, time.Second)
	if err != nil {
		panic(err) // it is one
	}
	return limit
}

// probe says whether the Redis with key can be written to and runs scripts, within a call's time. To connect it has longer.
func (s *Store) probe(ctx context.Context, key string) error {
	connect, cancel := context.WithTimeout(ctx, max(s.timeout, minDialTimeout))
	defer cancel()
	ping := redis.NewStringCmd(connect, "get", key+":probe") // on a Cluster, of the node that has the key
	if err := s.client.rdb.Process(connect, ping); err != nil && !errors.Is(err, redis.Nil) {
		s.client.noticed(connect, err)
		return withKind(err)
	}
	write, cancelWrite := context.WithTimeout(ctx, s.timeout)
	defer cancelWrite()
	err := s.client.rdb.Set(write, key+":probe", "", probeLife).Err()
	s.client.noticed(write, err)
	if err != nil {
		return withKind(err)
	}
	return s.ask(write, []*call{{mode: "peek", charges: []limiter.Charge{{Key: key + ":nobody", Limit: probedLimit(), Cost: 1}}}}).Err()
}
