package redisstore

import (
	"context"
	_ "embed" // for the scripts
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/weir-dev/weir/limiter"
)

// The parts of the spend script, in the order in which they use one another.
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
	//go:embed spend.lua
	spendLua string
)

// spendSource is the assembled script; a copy lies in testdata, so that a change shows as a whole.
func spendSource() string {
	return strings.Join([]string{
		numbersLua, fixedWindowLua, slidingWindowLogLua, slidingWindowCounterLua, bucketLua, spendLua,
	}, "\n")
}

// The script takes so many arguments, and answers so many integers, for each charge.
const (
	argumentsWidth = 6
	replyWidth     = 5
)

// Store is a limiter.Store in Redis: one script run, and so one round trip, a call.
type Store struct {
	client  *Client
	spend   script
	timeout time.Duration
	clock   func() time.Time
}

// StoreOption changes how a Store works.
type StoreOption func(*Store)

// WithClock makes the Store send clock's time instead of letting Redis read its own. It is for tests.
func WithClock(clock func() time.Time) StoreOption {
	return func(s *Store) { s.clock = clock }
}

// NewStore returns a Store on client's Redis that gives every call up after timeout.
func NewStore(client *Client, timeout time.Duration, options ...StoreOption) *Store {
	s := &Store{client: client, spend: newScript("spend", spendSource()), timeout: timeout}
	for _, option := range options {
		option(s)
	}
	return s
}

// Spend implements limiter.Store.
func (s *Store) Spend(ctx context.Context, charges []limiter.Charge) ([]limiter.Decision, error) {
	return s.run(ctx, "spend", charges)
}

// Peek implements limiter.Store.
func (s *Store) Peek(ctx context.Context, charges []limiter.Charge) ([]limiter.Decision, error) {
	return s.run(ctx, "peek", charges)
}

// run asks the script. A caller that goes away does not take the call with it: whether it was counted should depend
// on Redis alone.
func (s *Store) run(ctx context.Context, mode string, charges []limiter.Charge) ([]limiter.Decision, error) {
	if len(charges) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.timeout)
	defer cancel()
	keys, args := s.arguments(mode, charges)
	reply, err := s.spend.Run(ctx, s.client.rdb, keys, args...).Int64Slice()
	if err != nil {
		return nil, fmt.Errorf("run the spend script: %w", err)
	}
	return decode(reply, charges)
}

func (s *Store) arguments(mode string, charges []limiter.Charge) (keys []string, args []any) {
	keys = make([]string, len(charges))
	args = make([]any, 0, 2+argumentsWidth*len(charges))
	args = append(args, s.now(), mode)
	for i, c := range charges {
		keys[i] = c.Key
		enforcement := "enforce"
		if c.Shadow {
			enforcement = "shadow"
		}
		args = append(args, string(c.Limit.Algorithm()), c.Limit.Units(), c.Limit.Window().Microseconds(), c.Limit.Burst(),
			c.Cost, enforcement)
	}
	return keys, args
}

// now is the time to send: empty for Redis's own.
func (s *Store) now() string {
	if s.clock == nil {
		return ""
	}
	return strconv.FormatInt(int64(limiter.At(s.clock())), 10)
}

func decode(reply []int64, charges []limiter.Charge) ([]limiter.Decision, error) {
	if len(reply) != replyWidth*len(charges) {
		return nil, fmt.Errorf("the spend script answered %d numbers to %d charges", len(reply), len(charges))
	}
	decisions := make([]limiter.Decision, len(charges))
	for i, c := range charges {
		r := reply[replyWidth*i:]
		decisions[i] = limiter.Decision{
			Allowed:    r[0] == 1,
			Limit:      c.Limit.Units(),
			Remaining:  r[1],
			ResetAfter: time.Duration(r[2]) * time.Microsecond,
			RetryAfter: retryAfter(r[3]),
			Delay:      time.Duration(r[4]) * time.Microsecond,
		}
	}
	return decisions, nil
}

func retryAfter(microseconds int64) time.Duration {
	if microseconds < 0 {
		return limiter.Never
	}
	return time.Duration(microseconds) * time.Microsecond
}
