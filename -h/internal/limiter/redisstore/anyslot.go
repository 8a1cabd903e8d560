package redisstore

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/go/internal/limiter"
	"github.com/weir-dev/weir/go/internal/limiter/redisclient"
	"github.com/weir-dev/weir/go/internal/limiter/redisstore/lua"
)

// errSeveralSlots is the error of a call whose charges are in several slots, when its node did not decide them together. Nothing ran.
var errSeveralSlots = errors.New("no node of the Redis Cluster has the keys of all charges")

// sendToNode decides the calls of a batch for one node of a Redis Cluster: those with a counter that is read in place in a run for each, and
// at the same time the others in one run.
func (s *Store) sendToNode(ctx context.Context, cluster *redis.ClusterClient, calls []*call) {
	together, apart := splitInPlace(calls)
	switch {
	case len(apart) == 0:
		s.sendTogether(ctx, cluster, together)
	case len(together) == 0:
		s.sendEach(ctx, cluster, apart)
	default:
		done := make(chan struct{})
		go func() {
			defer close(done)
			s.sendEach(ctx, cluster, apart)
		}()
		s.sendTogether(ctx, cluster, together)
		<-done
	}
}

// splitInPlace divides calls by whether they have a counter that is read in place.
func splitInPlace(calls []*call) (together, apart []*call) {
	inPlace := func(c *call) bool { return slices.ContainsFunc(c.charges, isReadInPlace) }
	if !slices.ContainsFunc(calls, inPlace) {
		return calls, nil // as almost always: nothing is allocated
	}
	for _, c := range calls {
		if inPlace(c) {
			apart = append(apart, c)
		} else {
			together = append(together, c)
		}
	}
	return together, apart
}

// sendTogether decides calls in one run of a script, whatever slots their keys are in. If the node does not have all keys, for example
// because a slot moves, or does not permit such a script, each call is sent on its own.
func (s *Store) sendTogether(ctx context.Context, cluster *redis.ClusterClient, calls []*call) {
	if len(calls) == 1 && inOneSlot(calls[0].charges) {
		s.sendEach(ctx, cluster, calls)
		return
	}
	node, err := cluster.MasterForKey(ctx, calls[0].key())
	if err != nil {
		s.sendEach(ctx, cluster, calls) // the error has a kind there
		return
	}
	address := node.Options().Addr
	if s.together.IsPaused(address, time.Now()) {
		s.sendEach(ctx, cluster, calls)
		return
	}
	script, args := s.anySlotRequest(calls)
	cmd := redisclient.RunOnNode(ctx, s.client, node, redis.NewIntSliceCmd, script, args)
	inVain := cmd.Err() == nil && len(cmd.Val()) == 0
	switch {
	case inVain, isRejected(cmd.Err()):
		s.together.Pause(address, time.Now())
	case cmd.Err() == nil:
		s.together.Resume(address)
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

// anySlotRequest returns the script that decides calls whatever slots their keys are in, with its arguments.
func (s *Store) anySlotRequest(calls []*call) (script redisclient.Script, args []any) {
	return s.scripts.ForCallsInAnySlots(s.now(), s.haveCommonCounter(calls), len(calls), func(i int) lua.Call { return calls[i].forScript() })
}

// isReadInPlace reports whether the scripts do not read the counter as a whole, as any_slot.lua does.
func isReadInPlace(c limiter.Charge) bool {
	return c.Limit.Traits().Log && c.Limit.Units() > lua.MaxWholeLog
}
