package redisstore

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/redisclient"
)

// errSeveralSlots is the error of a call whose charges are in several slots, when its node did not decide them together. Nothing ran.
var errSeveralSlots = errors.New("no node of the Redis Cluster has the keys of all charges")

// sendToNode decides the calls of a batch for one node of a Redis Cluster in one run of a script, whatever slots their keys are in. If
// the node does not have all keys, for example because a slot moves, each call is sent on its own.
func (s *Store) sendToNode(ctx context.Context, cluster *redis.ClusterClient, calls []*call) {
	if s.together.isPaused(time.Now()) || slices.ContainsFunc(calls, func(c *call) bool { return slices.ContainsFunc(c.charges, isReadInPlace) }) {
		s.sendEach(ctx, cluster, calls)
		return
	}
	node, err := cluster.MasterForKey(ctx, calls[0].key())
	if err != nil {
		s.sendEach(ctx, cluster, calls) // the error has a kind there
		return
	}
	cmd := redisclient.RunOnNode(ctx, s.client, node, redis.NewIntSliceCmd, s.anySlot, s.anySlotArguments(calls))
	if cmd.Err() == nil && len(cmd.Val()) == 0 {
		s.together.pause(time.Now())
		s.sendEach(ctx, cluster, calls)
		return
	}
	s.together.resume()
	s.decodeReply(calls, cmd)
}

// anySlotArguments returns the arguments of any_slot.lua.
func (s *Store) anySlotArguments(calls []*call) []any {
	keys, args := s.arguments(calls)
	all := append(make([]any, 0, 1+len(keys)+len(args)), len(keys))
	for _, key := range keys {
		all = append(all, key)
	}
	return append(all, args...)
}

// isReadInPlace reports whether the scripts do not read the counter as a whole, as any_slot.lua does.
func isReadInPlace(c limiter.Charge) bool {
	return c.Limit.Algorithm() == limiter.SlidingWindowLog && c.Limit.Units() > maxWholeLog
}

// The pauses after a node did not decide a batch together.
const (
	firstApart = 100 * time.Millisecond
	maxApart   = time.Minute
)

// togetherness pauses the runs for several slots: while slots move, some of them are in vain, and a service that behaves like a Redis
// Cluster may not permit them at all. Each run in vain doubles the pause.
type togetherness struct {
	mu    sync.Mutex
	next  time.Duration
	until time.Time
}

func (t *togetherness) isPaused(now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return now.Before(t.until)
}

func (t *togetherness) pause(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now.Before(t.until) {
		return // a run that began before the pause
	}
	t.next = min(max(2*t.next, firstApart), maxApart)
	t.until = now.Add(t.next)
}

func (t *togetherness) resume() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.next = 0
}
