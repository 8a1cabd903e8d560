package redisstore

import (
	"context"
	_ "embed" // for the scripts
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/limiter"
)

// The parts of the scripts that work on counters, in the order in which they use one another.
var (
	//go:embed numbers.lua
	numbersLua string
	//go:embed fixed_window.lua
	fixedWindowLua string
	//go:embed sliding_window_log.lua
	slidingWindowLogLua string
	//go:embed sliding_window_counter.lua
	slidingWindowCounterLua string
	//go:embed bucket.lua
	bucketLua string
	//go:embed arguments.lua
	argumentsLua string
	//go:embed spend.lua
	spendLua string
	//go:embed refund.lua
	refundLua string
)

// spendSource and refundSource are the assembled scripts; copies lie in testdata, so that a change shows as a whole.
func spendSource() string { return countersLua() + spendLua }

func refundSource() string { return countersLua() + refundLua }

// countersLua is what the scripts that work on counters begin with. An algorithm is a function that returns its
// functions: a run makes only those that it uses.
func countersLua() string {
	algorithm := func(name, source string) string {
		return "local function load_" + name + "()\n" + source + "return " + name + "\nend\n"
	}
	return strings.Join([]string{
		numbersLua,
		algorithm("fixed_window", fixedWindowLua),
		algorithm("sliding_window_log", slidingWindowLogLua),
		algorithm("sliding_window_counter", slidingWindowCounterLua),
		algorithm("bucket", bucketLua),
		argumentsLua, "",
	}, "\n")
}

// The script takes so many arguments, and answers so many integers, for each charge.
const (
	argumentsWidth = 6
	replyWidth     = 6
)

// Store is a limiter.Store in Redis: one script run, and so one round trip, a call. On a Redis Cluster a call whose keys
// lie in several slots takes one for each.
type Store struct {
	client  *Client
	spend   script
	refund  script
	timeout time.Duration
	clock   func() time.Time
	// calls come together here; nil on a Redis Cluster, where they would have to share a slot.
	calls *collector
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

// NewStore returns a Store on client's Redis that gives every call up after timeout.
func NewStore(client *Client, timeout time.Duration, options ...StoreOption) *Store {
	s := &Store{
		client: client, timeout: timeout, refundFailed: func(error) {},
		spend: newScript("spend", spendSource()), refund: newScript("refund", refundSource()),
	}
	for _, option := range options {
		option(s)
	}
	if _, cluster := client.rdb.(*redis.ClusterClient); !cluster {
		s.calls = &collector{send: s.send}
	}
	return s
}

// Spend implements limiter.Store.
func (s *Store) Spend(ctx context.Context, charges []limiter.Charge) ([]limiter.Decision, error) {
	if len(charges) == 0 {
		return nil, nil
	}
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	if groups := s.groups(charges); groups != nil {
		return s.spendAcross(ctx, groups, len(charges))
	}
	return s.run(ctx, "spend", charges)
}

// Peek implements limiter.Store.
func (s *Store) Peek(ctx context.Context, charges []limiter.Charge) ([]limiter.Decision, error) {
	if len(charges) == 0 {
		return nil, nil
	}
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	if groups := s.groups(charges); groups != nil {
		decisions := make([]limiter.Decision, len(charges))
		return decisions, s.peekAcross(ctx, groups, decisions)
	}
	return s.run(ctx, "peek", charges)
}

// bounded is the context of one call. A caller that goes away does not take the call with it: whether it was counted
// should depend on Redis alone.
func (s *Store) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), s.timeout)
}

// call is one request to the script and what came of it.
type call struct {
	mode    string
	charges []limiter.Charge

	decisions []limiter.Decision
	err       error
	done      chan struct{} // closed when decisions or err are there
}

// run asks the script about charges whose keys share a slot.
func (s *Store) run(ctx context.Context, mode string, charges []limiter.Charge) ([]limiter.Decision, error) {
	c := &call{mode: mode, charges: charges}
	if s.calls == nil {
		s.ask(ctx, []*call{c})
		return c.decisions, c.err
	}
	if err := s.calls.do(ctx, c); err != nil {
		return nil, err
	}
	return c.decisions, nil
}

// send asks the script about calls that travel together.
func (s *Store) send(calls []*call) {
	ctx, cancel := s.bounded(context.Background())
	defer cancel()
	s.ask(ctx, calls)
}

// ask runs the script once and puts an answer or an error into every call.
func (s *Store) ask(ctx context.Context, calls []*call) {
	keys, args := s.arguments(calls)
	reply, err := s.client.run(ctx, s.spend, keys, args...).Int64Slice()
	if err == nil && len(reply) != replyWidth*len(keys) {
		err = fmt.Errorf("answered %d numbers to %d charges", len(reply), len(keys))
	}
	for _, c := range calls {
		if err != nil {
			c.err = fmt.Errorf("run the spend script: %w", err)
			continue
		}
		own := replyWidth * len(c.charges)
		c.decisions = decode(reply[:own], c.charges)
		reply = reply[own:]
	}
}

func (s *Store) arguments(calls []*call) (keys []string, args []any) {
	n := 0
	for _, c := range calls {
		n += len(c.charges)
	}
	keys = make([]string, 0, n)
	args = append(make([]any, 0, 1+2*len(calls)+argumentsWidth*n), s.now())
	for _, call := range calls {
		args = append(args, call.mode, len(call.charges))
		for _, c := range call.charges {
			keys = append(keys, c.Key)
			args = append(appendLimit(args, c.Limit), c.Cost, enforcement(c))
		}
	}
	return keys, args
}

func enforcement(c limiter.Charge) string {
	if c.Shadow {
		return "shadow"
	}
	return "enforce"
}

// appendLimit appends the arguments that limit_at reads.
func appendLimit(args []any, limit limiter.Limit) []any {
	return append(args, string(limit.Algorithm()), limit.Units(), limit.Window().Microseconds(), limit.Burst())
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
	keys := make([]string, len(refunds))
	args := append(make([]any, 0, 1+argumentsWidth*len(refunds)), s.now())
	for i, r := range refunds {
		keys[i] = r.Key
		args = append(appendLimit(args, r.Limit), r.Cost, int64(r.At))
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

func decode(reply []int64, charges []limiter.Charge) []limiter.Decision {
	decisions := make([]limiter.Decision, len(charges))
	for i, c := range charges {
		r := reply[replyWidth*i:]
		decisions[i] = limiter.Decision{
			At:         limiter.Instant(r[0]),
			Allowed:    r[1] == 1,
			Limit:      c.Limit.Units(),
			Remaining:  r[2],
			ResetAfter: time.Duration(r[3]) * time.Microsecond,
			RetryAfter: retryAfter(r[4]),
			Delay:      time.Duration(r[5]) * time.Microsecond,
		}
	}
	return decisions
}

func retryAfter(microseconds int64) time.Duration {
	if microseconds < 0 {
		return limiter.Never
	}
	return time.Duration(microseconds) * time.Microsecond
}
