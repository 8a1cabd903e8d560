package redisstore

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/limiter"
)

// What the script takes and answers.
const (
	shapeHead      = 2   // arguments of a shape before those of its charges
	argumentsWidth = 6   // arguments of a charge
	firstShape     = '0' // the name of the first shape
	replyWidth     = 4   // integers of a charge in the reply, behind the time
	never          = -(1<<53 - 1)
)

// Store is a limiter.Store in Redis: one script run, and so one round trip, a call. On a Redis Cluster a call whose keys
// lie in several slots takes one for each.
type Store struct {
	client  *Client
	spend   script
	alone   alone
	refund  script
	timeout time.Duration
	clock   func() time.Time
	calls   *collectors
	notices string // the channel that is told of counters that lose units, "" for none
	// refundFailed is told of units that a denied request leaves spent.
	refundFailed func(error)
}

// StoreOption changes how a Store works.
type StoreOption func(*Store)

// WithClock makes the Store send clock's time instead of letting Redis read its own. It is for tests.
func WithClock(clock func() time.Time) StoreOption {
	return func(s *Store) { s.clock = clock }
}

// WithRefundFailures makes the Store tell of every refund that failed: a request that was charged in one slot of a Redis
// Cluster and denied in another has left its units spent until their window ends.
func WithRefundFailures(tell func(error)) StoreOption {
	return func(s *Store) { s.refundFailed = tell }
}

// WithNotices makes the Store tell a channel the keys of counters that refunds and resets take units from, for who
// remembers what was denied: see [Client.Forgotten].
func WithNotices(channel string) StoreOption {
	return func(s *Store) { s.notices = channel }
}

// NewStore returns a Store on client's Redis that gives every call up after timeout.
func NewStore(client *Client, timeout time.Duration, options ...StoreOption) *Store {
	s := &Store{
		client: client, timeout: timeout, refundFailed: func(error) {},
		spend: newScript("spend", spendSource()), alone: newAlone(), refund: newScript("refund", refundSource()),
	}
	for _, option := range options {
		option(s)
	}
	s.calls = newCollectors(client, s.send)
	return s
}

// Spend implements limiter.Store. A caller that goes away does not take the call with it: whether it was counted should
// depend on Redis alone.
func (s *Store) Spend(_ context.Context, charges []limiter.Charge) ([]limiter.Decision, error) {
	if len(charges) == 0 {
		return nil, nil
	}
	deadline := time.Now().Add(s.timeout)
	if groups := s.groups(charges); groups != nil {
		return s.spendAcross(deadline, groups, len(charges))
	}
	return s.run(deadline, "spend", charges)
}

// Peek implements limiter.Store.
func (s *Store) Peek(_ context.Context, charges []limiter.Charge) ([]limiter.Decision, error) {
	if len(charges) == 0 {
		return nil, nil
	}
	deadline := time.Now().Add(s.timeout)
	if groups := s.groups(charges); groups != nil {
		decisions := make([]limiter.Decision, len(charges))
		if err := s.peekAcross(deadline, groups, decisions); err != nil {
			return nil, err
		}
		return decisions, nil
	}
	return s.run(deadline, "peek", charges)
}

// bounded is the context of one call.
func (s *Store) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), s.timeout)
}

// run asks the script about charges whose keys share a slot.
func (s *Store) run(deadline time.Time, mode string, charges []limiter.Charge) ([]limiter.Decision, error) {
	return s.calls.of(deadline, charges[0].Key).do(&call{mode: mode, charges: charges, deadline: deadline})
}

// send asks the script about calls that travel together.
func (s *Store) send(calls []*call) {
	ctx, cancel := context.WithDeadline(context.Background(), calls[len(calls)-1].deadline)
	defer cancel()
	if cluster, ok := s.client.rdb.(*redis.ClusterClient); ok && len(calls) > 1 {
		s.askEach(ctx, cluster, calls)
		return
	}
	s.answer(calls, s.ask(ctx, calls))
}

// ask runs the script once.
func (s *Store) ask(ctx context.Context, calls []*call) *redis.IntSliceCmd {
	script, keys, args := s.request(calls)
	return runAs(ctx, s.client, redis.NewIntSliceCmd, script, keys, args)
}

// askEach runs the script once for each call, for they do not share a slot, in one round trip.
func (s *Store) askEach(ctx context.Context, cluster *redis.ClusterClient, calls []*call) {
	pipe, commands := cluster.Pipeline(), make([]*redis.IntSliceCmd, len(calls))
	for i := range calls {
		commands[i] = redis.NewIntSliceCmd(ctx, scriptWords(s.request(calls[i:i+1]))...)
		commands[i].SetFirstKeyPos(firstKey)
		_ = pipe.Process(ctx, once{commands[i]}) // which only queues it
	}
	_, err := pipe.Exec(ctx)
	s.client.noticed(ctx, err)
	for i, cmd := range commands {
		if nothingRan(cmd.Err()) {
			cmd = s.ask(ctx, calls[i:i+1])
		}
		s.answer(calls[i:i+1], cmd)
	}
}

// answer puts what the script replied into the calls it was asked about.
func (s *Store) answer(calls []*call, cmd *redis.IntSliceCmd) {
	n := 0
	for _, c := range calls {
		n += len(c.charges)
	}
	reply, err := cmd.Result()
	if err == nil && len(reply) != 1+replyWidth*n {
		err = fmt.Errorf("answered %d numbers to %d charges", len(reply), n)
	}
	if err != nil {
		err = fmt.Errorf("run the spend script: %w", withKind(err))
		for _, c := range calls {
			c.answer.err = err
		}
		return
	}
	now, reply := limiter.Instant(reply[0]), reply[1:]
	for _, c := range calls {
		own := replyWidth * len(c.charges)
		c.answer.decisions = decode(now, reply[:own], c.charges)
		reply = reply[own:]
	}
}

// request is the script that decides at most maxBatch calls, and what it takes.
func (s *Store) request(calls []*call) (script script, keys []string, args []any) {
	if len(calls) == 1 && len(calls[0].charges) == 1 {
		return s.requestAlone(calls[0].mode, &calls[0].charges[0])
	}
	keys, args = s.arguments(calls)
	return s.spend, keys, args
}

func (s *Store) requestAlone(mode string, c *limiter.Charge) (script script, keys []string, args []any) {
	args = append(make([]any, 0, argumentsWidth), mode, c.Limit.Units(), c.Limit.Window().Microseconds(), capacity(c.Limit), c.Units())
	if s.clock != nil {
		args = append(args, s.now())
	}
	return s.alone.of(c.Limit), []string{c.Key}, args
}

// arguments of the spend script. What calls have in common but for their keys is sent once.
func (s *Store) arguments(calls []*call) (keys []string, args []any) {
	n := 0
	for _, c := range calls {
		n += len(c.charges)
	}
	keys = make([]string, 0, n)
	shapes := make([]byte, len(calls))
	first := calls[0]
	args = append(make([]any, 0, 2+shapeHead+argumentsWidth*len(first.charges)), s.now(), "")
	distinct := make([]*call, 0, 4) // seldom more
	for i, call := range calls {
		for j := range call.charges {
			keys = append(keys, call.charges[j].Key)
		}
		shape := slices.IndexFunc(distinct, call.shaped)
		if shape < 0 {
			shape = len(distinct)
			distinct = append(distinct, call)
			args = appendShape(args, call)
		}
		shapes[i] = firstShape + byte(shape)
	}
	args[1] = shapes
	return keys, args
}

// shaped says whether the script is told the same of both calls, but for their keys.
func (c *call) shaped(like *call) bool {
	if c.mode != like.mode || len(c.charges) != len(like.charges) {
		return false
	}
	for i := range c.charges {
		a, b := &c.charges[i], &like.charges[i]
		if a.Cost != b.Cost || a.Shadow != b.Shadow || a.Limit != b.Limit {
			return false
		}
	}
	return true
}

func appendShape(args []any, c *call) []any {
	args = append(args, c.mode, len(c.charges))
	for _, charge := range c.charges {
		args = append(appendLimit(args, charge.Limit), charge.Units(), enforcement(charge))
	}
	return args
}

func enforcement(c limiter.Charge) string {
	if c.Shadow {
		return "shadow"
	}
	return "enforce"
}

// appendLimit appends the arguments that limit_at reads.
func appendLimit(args []any, limit limiter.Limit) []any {
	return append(args, string(limit.Algorithm()), limit.Units(), limit.Window().Microseconds(), capacity(limit))
}

// capacity is the argument of that name.
func capacity(limit limiter.Limit) int64 {
	switch limit.Algorithm() {
	case limiter.TokenBucket, limiter.LeakyBucket:
		if limit.IsAtOnce() {
			return -limit.Capacity()
		}
		return limit.Capacity()
	default:
		return 0
	}
}

// Refund implements limiter.Store.
func (s *Store) Refund(ctx context.Context, refunds []limiter.Refund) error {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	for _, r := range refunds {
		if err := s.refundGroup(ctx, []limiter.Refund{r}); err != nil {
			return err
		}
	}
	return nil
}

// refundGroup takes back what was spent on keys that share a slot.
func (s *Store) refundGroup(ctx context.Context, refunds []limiter.Refund) error {
	if len(refunds) == 0 {
		return nil
	}
	if s.Unavailable(refunds[0].Key) {
		return errAway
	}
	keys := make([]string, len(refunds))
	args := append(make([]any, 0, 2+argumentsWidth*len(refunds)), s.now(), s.notices)
	for i, r := range refunds {
		keys[i] = r.Key
		args = append(appendLimit(args, r.Limit), r.Units(), int64(r.At))
	}
	if err := s.client.run(ctx, s.refund, keys, args...).Err(); err != nil {
		return fmt.Errorf("run the refund script: %w", err)
	}
	return nil
}

// Reset implements limiter.Store.
func (s *Store) Reset(ctx context.Context, keys []string) error {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	pipe := s.client.rdb.Pipeline()
	for _, key := range keys { // one command a key: on a Cluster they lie in different slots
		pipe.Unlink(ctx, key)
		if s.notices != "" {
			pipe.Publish(ctx, s.notices, key)
		}
	}
	_, err := pipe.Exec(ctx)
	s.client.noticed(ctx, err)
	if err != nil {
		return fmt.Errorf("reset %d counters: %w", len(keys), withKind(err))
	}
	return nil
}

// now is the time to send: empty for Redis's own.
func (s *Store) now() string {
	if s.clock == nil {
		return ""
	}
	return strconv.FormatInt(int64(limiter.At(s.clock())), 10)
}

func decode(now limiter.Instant, reply []int64, charges []limiter.Charge) []limiter.Decision {
	decisions := make([]limiter.Decision, len(charges))
	for i := range charges {
		ahead, remaining, resetAfter, wait := reply[0], reply[1], reply[2], reply[3]
		reply = reply[replyWidth:]
		decisions[i] = limiter.Decision{
			At:         now + limiter.Instant(ahead),
			Allowed:    wait >= 0,
			Limit:      charges[i].Limit.Units(),
			Remaining:  remaining,
			ResetAfter: microseconds(resetAfter),
		}
		switch {
		case wait >= 0:
			decisions[i].Delay = microseconds(wait)
		case wait == never:
			decisions[i].RetryAfter = limiter.Never
		default:
			decisions[i].RetryAfter = microseconds(-wait)
		}
	}
	return decisions
}

func microseconds(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
