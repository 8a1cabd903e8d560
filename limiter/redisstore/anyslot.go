package redisstore

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/redisclient"
)

// errSeveralSlots is the error of a call whose charges are in several slots, when its node did not decide them together. Nothing ran.
var errSeveralSlots = errors.New("no node of the Redis Cluster has the keys of all charges")

// sendToNode decides the calls of a batch for one node of a Redis Cluster in one run of a script, whatever slots their keys are in. If
// the node does not have all keys, for example because a slot moves, or does not permit such a script, each call is sent on its own.
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
	inVain := cmd.Err() == nil && len(cmd.Val()) == 0
	switch {
	case inVain, isRejected(cmd.Err()):
		s.together.pause(time.Now())
	case cmd.Err() == nil:
		s.together.resume()
	}
	if inVain || isRejectedBeforeItRan(cmd.Err()) {
		s.sendEach(ctx, cluster, calls)
		return
	}
	s.decodeReply(calls, cmd)
}

// isRejected reports whether err is an error reply to one command, and no sign of an outage.
func isRejected(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply) && !redisclient.IsOutage(err)
}

// isRejectedBeforeItRan reports whether err is an error reply that shows that a script did not run: it is about the script or its keys, and
// is not the error of a command in the script, which Redis reports with the line. After any other error reply, for example of a proxy that
// did not wait any longer, the script may have counted.
func isRejectedBeforeItRan(err error) bool {
	if !isRejected(err) || strings.Contains(err.Error(), "user_script") {
		return false
	}
	switch redisclient.Kind(err) {
	case redisclient.KindCrossSlot, redisclient.KindMoving:
		return true
	}
	text := strings.ToLower(err.Error())
	return slices.ContainsFunc([]string{"eval", "lua script", "number of keys"}, func(part string) bool { return strings.Contains(text, part) })
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
