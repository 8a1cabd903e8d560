package redisstore

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/overload"
	"github.com/weir-dev/weir/limiter/redisclient"
	"github.com/weir-dev/weir/limiter/redisstore/lua"
	"github.com/weir-dev/weir/limiter/redisstore/together"
	"github.com/weir-dev/weir/limiter/tracing"
)

// Store is a limiter.Store in Redis. Each call runs one script in one round trip. On a Redis Cluster a call whose keys are on
// several nodes runs one script on each of them at the same time, and takes a second round trip if one of them denies it.
type Store struct {
	scripts       *lua.Scripts
	client        *redisclient.Client
	together      together.Nodes
	splits        atomic.Bool // the server is no cluster, and rejects keys in several slots all the same
	timeout       time.Duration
	clock         func() time.Time
	batchers      *batchers
	invalidations string // name of a channel; "" to publish nothing
	refundFailed  func(error)
	foundCorrupt  func(keys []string)
	foundAhead    func(keys []string)
	meter         Meter     // nil: no measurements
	calls         sync.Pool // of *call
	keySets       sync.Pool // of map[string]struct{}, empty
}

// Scripts returns every script of this package that decides or refunds, for [redisclient.Client.LoadScripts].
func Scripts() []redisclient.Script { return lua.Assembled().All() }

// StoreOption configures a Store.
type StoreOption func(*Store)

// WithClock makes the Store send the time of clock instead of letting Redis read its own. It is for tests.
func WithClock(clock func() time.Time) StoreOption {
	return func(s *Store) { s.clock = clock }
}

// WithRefundFailures makes the Store call report for every refund that failed. The units of such a request stay spent until
// their window ends: the request was charged in one slot of a Redis Cluster and denied in another.
func WithRefundFailures(report func(error)) StoreOption {
	return func(s *Store) { s.refundFailed = report }
}

// WithCorruptCounters makes the Store call report with the keys of counters whose value no script has written. Such a counter
// starts over with the next charge that is counted on it. A key is reported for each call until then.
func WithCorruptCounters(report func(keys []string)) StoreOption {
	return func(s *Store) { s.foundCorrupt = report }
}

// WithCountersAhead makes the Store call report with the keys of counters that start over because the clock of Redis was wrong when they
// counted: they are more than their window ahead of it, or would deny for longer than their limit can.
func WithCountersAhead(report func(keys []string)) StoreOption {
	return func(s *Store) { s.foundAhead = report }
}

// WithInvalidations makes the Store publish the key of every counter that a refund or a reset changes. Caches of denials
// subscribe to that channel, see [FollowInvalidations].
func WithInvalidations(channel string) StoreOption {
	return func(s *Store) { s.invalidations = channel }
}

// NewStore returns a Store on the Redis of client. Calls fail after timeout.
func NewStore(client *redisclient.Client, timeout time.Duration, options ...StoreOption) *Store {
	s := &Store{
		scripts: lua.Assembled(), client: client, timeout: timeout, refundFailed: func(error) {}, foundCorrupt: func([]string) {}, foundAhead: func([]string) {},
		calls: sync.Pool{New: func() any { return &call{} }},
	}
	for _, option := range options {
		option(s)
	}
	s.batchers = newBatchers(client, s.send, s.meter)
	return s
}

// Spend implements limiter.Store. It ignores the cancellation of the caller's context: whether a call is counted depends
// on Redis alone.
func (s *Store) Spend(ctx context.Context, charges []limiter.Charge) ([]limiter.Decision, error) {
	if len(charges) == 0 {
		return nil, nil
	}
	return s.spendUntil(s.origin(ctx), charges)
}

// origin is what the calls of one request have in common.
type origin struct {
	began, deadline time.Time
	span            *tracing.Span // nil unless the request is traced
	load            int           // of its connection
}

func (s *Store) origin(ctx context.Context) origin {
	now := time.Now()
	return origin{began: now, deadline: now.Add(s.timeout), span: tracing.From(ctx), load: loadClass(overload.InProgress(ctx))}
}

// later returns the origin of calls after a round trip of the same request, which is no time in a queue.
func (o origin) later() origin {
	o.began = time.Now()
	return o
}

func (s *Store) spendUntil(origin origin, charges []limiter.Charge) ([]limiter.Decision, error) {
	switch {
	case s.inOneRun(charges):
		decisions, err := s.run(origin, modeSpend, charges)
		if errors.Is(err, errSeveralSlots) { // the server has just shown that it needs a run for each slot
			return s.spendUntil(origin.later(), charges)
		}
		return decisions, err
	case haveDebts(charges):
		return s.spendDebts(origin, charges)
	default:
		return s.across(origin, modeSpend, charges)
	}
}

// Peek implements limiter.Store.
func (s *Store) Peek(ctx context.Context, charges []limiter.Charge) ([]limiter.Decision, error) {
	if len(charges) == 0 {
		return nil, nil
	}
	return s.peekUntil(s.origin(ctx), charges)
}

func (s *Store) peekUntil(origin origin, charges []limiter.Charge) ([]limiter.Decision, error) {
	if !s.inOneRun(charges) {
		return s.across(origin, modePeek, charges)
	}
	decisions, err := s.run(origin, modePeek, charges)
	if errors.Is(err, errSeveralSlots) { // as in spendUntil
		return s.peekUntil(origin.later(), charges)
	}
	return decisions, err
}

// run decides charges whose keys are in one slot, or on one node of a Redis Cluster.
func (s *Store) run(origin origin, mode string, charges []limiter.Charge) ([]limiter.Decision, error) {
	c := s.calls.Get().(*call) //nolint:forcetypeassert // all its values have this type
	*c = call{mode: mode, charges: charges, began: origin.began, deadline: origin.deadline, span: origin.span, load: origin.load, result: c.result}
	decisions, err := s.batchers.forKey(origin.deadline, charges[0].Key).do(c)
	*c = call{result: c.result} // do returns when nothing else uses the call
	s.calls.Put(c)
	return decisions, err
}

// withTimeout returns the context of one call, which does not end with ctx.
func (s *Store) withTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), s.timeout)
}

// now is the time argument of scripts in microseconds since the epoch; "" makes Redis read its own clock.
func (s *Store) now() string {
	if s.clock == nil {
		return ""
	}
	return strconv.FormatInt(int64(limiter.At(s.clock())), 10)
}
