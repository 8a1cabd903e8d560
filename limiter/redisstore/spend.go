package redisstore

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/redisclient"
)

// The arguments and the reply of the spend scripts.
const (
	modeSpend = "spend"
	modePeek  = "peek"

	runHead        = 4   // arguments before those of the shapes
	shapeHead      = 2   // arguments of a shape before those of its charges
	argumentsWidth = 6   // arguments of a charge
	firstShape     = '0' // the name of the first shape
	never          = -(1<<53 - 1)

	// The first number about a charge in the reply is a multiple of replyMarks plus these marks.
	replyMarks   = 4
	replyWaits   = 1
	replyIsAhead = 2
)

// send decides the calls of a batch in one round trip, by their latest deadline, or later if this process is late.
func (s *Store) send(calls []*call) {
	ctx, cancel := context.WithDeadline(context.Background(), s.leaveTime(calls))
	defer cancel()
	if cluster, ok := s.client.Cluster(); ok && (len(calls) > 1 || !inOneSlot(calls[0].charges)) {
		s.sendToNode(ctx, cluster, calls)
		return
	}
	s.decodeReply(calls, s.runScript(ctx, calls))
}

// leaveTime returns the deadline of a batch. It prolongs a batch that has less than half of a timeout, because the batcher has decided that there
// is time for the calls, and this process may have been late since then. The breaker finds the new deadline in the calls.
func (s *Store) leaveTime(calls []*call) time.Time {
	deadline, soonest := latestDeadline(calls), time.Now().Add(s.timeout/2)
	if deadline.Before(soonest) {
		calls[0].deadline, deadline = soonest, soonest
	}
	return deadline
}

// runScript runs one script for all calls.
func (s *Store) runScript(ctx context.Context, calls []*call) *redis.IntSliceCmd {
	script, keys, args := s.request(calls)
	return redisclient.RunAs(ctx, s.client, redis.NewIntSliceCmd, script, keys, args)
}

// sendEach runs one script per call in one round trip. A call with several slots fails.
func (s *Store) sendEach(ctx context.Context, cluster *redis.ClusterClient, all []*call) {
	calls := make([]*call, 0, len(all))
	for _, c := range all {
		if inOneSlot(c.charges) {
			calls = append(calls, c)
		} else {
			c.reply.err = errSeveralSlots
		}
	}
	commands := redisclient.RunEach(ctx, s.client, cluster, redis.NewIntSliceCmd, len(calls),
		func(i int) (redisclient.Script, []string, []any) { return s.request(calls[i : i+1]) })
	for i, cmd := range commands {
		s.decodeReply(calls[i:i+1], cmd)
	}
}

// request returns the script that decides calls, at most maxBatch, with its keys and arguments.
func (s *Store) request(calls []*call) (script redisclient.Script, keys []string, args []any) {
	if len(calls) == 1 && len(calls[0].charges) == 1 {
		return s.singleRequest(calls[0].mode, &calls[0].charges[0])
	}
	keys, args = s.arguments(calls)
	return s.scripts.Spend, keys, args
}

// singleRequest is the request for one charge, see spend_one.lua.
func (s *Store) singleRequest(mode string, c *limiter.Charge) (script redisclient.Script, keys []string, args []any) {
	args = append(make([]any, 0, argumentsWidth+1), mode, c.Limit.Units(), c.Limit.Window().Microseconds(), capacity(c.Limit), cost(c))
	var of scriptKeys
	of.add(c.Key, c.Limit)
	isCompact := len(of.fields) > 0
	if isCompact {
		args = append(args, of.fields)
	}
	if s.clock != nil {
		args = append(args, s.now())
	}
	return s.scripts.ForCharge(c.Limit, isCompact), of.keys, args
}

// arguments returns those of spend.lua. Calls that differ only in their keys have the same shape, which is sent once.
func (s *Store) arguments(calls []*call) (keys []string, args []any) {
	n := 0
	for _, c := range calls {
		n += len(c.charges)
	}
	of := scriptKeys{keys: make([]string, 0, n)}
	shapes := make([]byte, len(calls))
	first := calls[0]
	args = append(make([]any, 0, runHead+shapeHead+argumentsWidth*len(first.charges)), s.now(), "", "", "")
	distinct := make([]*call, 0, 4) // rarely more
	for i, call := range calls {
		for j := range call.charges {
			of.add(call.charges[j].Key, call.charges[j].Limit)
		}
		shape := slices.IndexFunc(distinct, call.hasShapeOf)
		if shape < 0 {
			shape = len(distinct)
			distinct = append(distinct, call)
			args = appendShape(args, call)
		}
		shapes[i] = firstShape + byte(shape)
	}
	args[1] = shapes
	if len(of.fields) > 0 {
		args[2] = of.fields
	}
	if s.haveCommonCounter(calls) {
		args[3] = "repeated"
	}
	return of.keys, args
}

// haveCommonCounter reports whether two of the calls have a counter in common. The keys of a call are distinct.
func (s *Store) haveCommonCounter(calls []*call) bool {
	if len(calls) == 1 {
		return false
	}
	seen, _ := s.keySets.Get().(map[string]struct{})
	if seen == nil {
		seen = make(map[string]struct{}, maxBatch)
	}
	defer func() {
		clear(seen)
		s.keySets.Put(seen)
	}()
	n := 0
	for _, c := range calls {
		n += len(c.charges)
		for i := range c.charges {
			seen[c.charges[i].Key] = struct{}{}
		}
	}
	return len(seen) < n
}

// hasShapeOf reports whether the calls are equal except for their keys.
func (c *call) hasShapeOf(other *call) bool {
	if c.mode != other.mode || len(c.charges) != len(other.charges) {
		return false
	}
	for i := range c.charges {
		a, b := &c.charges[i], &other.charges[i]
		if a.Cost != b.Cost || a.Shadow != b.Shadow || a.Debt != b.Debt || a.Whole != b.Whole || a.Limit != b.Limit || isCompact(a.Key) != isCompact(b.Key) {
			return false
		}
	}
	return true
}

func appendShape(args []any, c *call) []any {
	args = append(args, c.mode, len(c.charges))
	for _, charge := range c.charges {
		args = append(appendLimit(args, charge.Key, charge.Limit), cost(&charge), enforcement(charge))
	}
	return args
}

// wholeDebt is added to the cost of a debt of which all units must remain. It is above every cost.
const wholeDebt = 1 << 31

// cost is the argument that read_cost in numbers.lua reads.
func cost(c *limiter.Charge) int64 {
	switch {
	case !c.CountsAlways():
		return c.Units()
	case c.Whole:
		return -c.Units() - wholeDebt
	default:
		return -c.Units()
	}
}

func enforcement(c limiter.Charge) string {
	if c.Shadow {
		return "shadow"
	}
	return "enforce"
}

// appendLimit appends the arguments that read_charge in arguments.lua reads.
func appendLimit(args []any, key string, limit limiter.Limit) []any {
	return append(args, scriptAlgorithm(limit.Traits(), isCompact(key)), limit.Units(), limit.Window().Microseconds(), capacity(limit))
}

// delayUnit separates the capacity from the maximum delay in one argument. It is above every capacity.
const delayUnit = 1 << 31

// capacity is the argument with that name: of a bucket, in units. For a LeakyBucket whose delay is bounded, it is negative, and includes the
// maximum delay in milliseconds as a multiple of delayUnit.
func capacity(limit limiter.Limit) int64 {
	if !limit.Traits().Drains {
		return 0
	}
	if most, bounded := limit.MaxDelay(); bounded {
		return -limit.Capacity() - delayUnit*most.Milliseconds()
	}
	return limit.Capacity()
}

// decodeReply stores the reply to calls in them, and reports corrupt counters.
func (s *Store) decodeReply(calls []*call, cmd *redis.IntSliceCmd) {
	n := 0
	for _, c := range calls {
		n += len(c.charges)
	}
	numbers, err := cmd.Result()
	r, decisions := reply{numbers: numbers}, make([]limiter.Decision, n)
	if err == nil {
		r.now = limiter.Instant(r.next())
		rest := decisions
		for _, c := range calls {
			of := len(c.charges)
			for i := range c.charges {
				rest[i] = r.decision(&c.charges[i])
			}
			c.reply.decisions, rest = rest[:of:of], rest[of:]
		}
		if r.isShort {
			err = fmt.Errorf("got %d numbers for %d charges", len(numbers), n)
		}
	}
	if err != nil {
		err = fmt.Errorf("run the spend script: %w", redisclient.WithKind(err))
		for _, c := range calls {
			c.reply = result{err: err}
		}
		return
	}
	if len(r.numbers) > 0 {
		s.reportStartsOver(r.numbers, func(i int64) string { return keyOf(calls, i) })
	}
}

// keyOf returns the key of charge i of the request that decides calls.
func keyOf(calls []*call, i int64) string {
	for _, c := range calls {
		if i < int64(len(c.charges)) {
			return c.charges[i].Key
		}
		i -= int64(len(c.charges))
	}
	return ""
}

// reportStartsOver reports the counters with these indexes of keys: those that are corrupt, and, with the index -1 - i, those that are too far
// ahead of the clock.
func (s *Store) reportStartsOver(indexes []int64, key func(int64) string) {
	var corrupt, ahead []string
	for _, index := range indexes {
		if index < 0 {
			ahead = append(ahead, key(-1-index))
		} else {
			corrupt = append(corrupt, key(index))
		}
	}
	if len(corrupt) > 0 {
		s.foundCorrupt(corrupt)
	}
	if len(ahead) > 0 {
		s.foundAhead(ahead)
	}
}

// reply reads the reply of the spend scripts.
type reply struct {
	numbers []int64 // not yet read
	isShort bool    // more numbers were read than there are
	now     limiter.Instant
}

func (r *reply) next() int64 {
	if len(r.numbers) == 0 {
		r.isShort = true
		return 0
	}
	n := r.numbers[0]
	r.numbers = r.numbers[1:]
	return n
}

// decision reads the decision about a charge.
func (r *reply) decision(c *limiter.Charge) limiter.Decision {
	head := r.next()
	d := limiter.Decision{
		At: r.now, Allowed: true, Limit: c.Limit.Units(), Remaining: head / replyMarks, ResetAfter: microseconds(r.next()),
	}
	if head&replyWaits != 0 {
		switch wait := r.next(); {
		case wait >= 0:
			d.Delay = microseconds(wait)
		case wait == never:
			d.Allowed, d.RetryAfter = false, limiter.Never
		default:
			d.Allowed, d.RetryAfter = false, microseconds(-wait)
		}
	}
	if head&replyIsAhead != 0 {
		ahead := r.next()
		d.At, d.Ahead = d.At+limiter.Instant(ahead), microseconds(ahead)
	}
	return d
}

func microseconds(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
