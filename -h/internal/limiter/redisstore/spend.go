package redisstore

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/go/internal/limiter"
	"github.com/weir-dev/weir/go/internal/limiter/redisclient"
	"github.com/weir-dev/weir/go/internal/limiter/redisstore/lua"
)

// The modes of calls.
const (
	modeSpend = lua.ModeSpend
	modePeek  = lua.ModePeek
)

// send decides the calls of a batch in one round trip, by their latest deadline, or later if this process is late.
func (s *Store) send(calls []*call) {
	ctx, cancel := context.WithDeadline(context.Background(), s.leaveTime(calls))
	defer cancel()
	if cluster, ok := s.client.Cluster(); ok && (len(calls) > 1 || !inOneSlot(calls[0].charges)) {
		s.sendToNode(ctx, cluster, calls)
		return
	}
	if len(calls) > 1 && s.splits.Load() {
		s.sendEach(ctx, s.client.Redis(), calls)
		return
	}
	cmd := s.runScript(ctx, calls)
	if (len(calls) > 1 || !inOneSlot(calls[0].charges)) && s.learnsSlots(cmd.Err()) {
		s.sendEach(ctx, s.client.Redis(), calls)
		return
	}
	s.decodeReply(calls, cmd)
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
func (s *Store) sendEach(ctx context.Context, client redis.UniversalClient, batch []*call) {
	calls := make([]*call, 0, len(batch))
	for _, c := range batch {
		if inOneSlot(c.charges) {
			calls = append(calls, c)
		} else {
			c.reply.err = errSeveralSlots
		}
	}
	commands, _ := redisclient.RunEach(ctx, s.client, client, redis.NewIntSliceCmd, len(calls),
		func(i int) (redisclient.Script, []string, []any) { return s.request(calls[i : i+1]) })
	for i, cmd := range commands {
		s.decodeReply(calls[i:i+1], cmd)
	}
}

// request returns the script that decides calls, at most maxBatch, with its keys and arguments.
func (s *Store) request(calls []*call) (script redisclient.Script, keys []string, args []any) {
	if len(calls) == 1 && len(calls[0].charges) == 1 {
		return s.scripts.ForOne(s.now(), calls[0].mode, &calls[0].charges[0])
	}
	return s.batchRequest(calls)
}

func (s *Store) batchRequest(calls []*call) (script redisclient.Script, keys []string, args []any) {
	return s.scripts.ForCalls(s.now(), s.haveCommonCounter(calls), len(calls), func(i int) lua.Call { return calls[i].forScript() })
}

func (c *call) forScript() lua.Call { return lua.Call{Mode: c.mode, Charges: c.charges} }

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

// decodeReply stores the reply to calls in them, and reports corrupt counters.
func (s *Store) decodeReply(calls []*call, cmd *redis.IntSliceCmd) {
	n := 0
	for _, c := range calls {
		n += len(c.charges)
	}
	numbers, err := cmd.Result()
	r, decisions := lua.NewReply(numbers), make([]limiter.Decision, n)
	if err == nil {
		rest := decisions
		for _, c := range calls {
			count := len(c.charges)
			for i := range c.charges {
				rest[i] = r.Decision(&c.charges[i])
			}
			c.reply.decisions, rest = rest[:count:count], rest[count:]
		}
		if r.IsShort {
			err = redisclient.Unclear(fmt.Errorf("got %d numbers for %d charges: does a proxy change replies?", len(numbers), n))
		}
	}
	if err != nil {
		err = fmt.Errorf("run the spend script: %w", redisclient.WithKind(err))
		for _, c := range calls {
			c.reply = result{err: err}
		}
		return
	}
	if len(r.Numbers) > 0 {
		s.reportStartsOver(r.Numbers, func(i int64) string { return keyOf(calls, i) })
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
