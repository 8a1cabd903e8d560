package redisstore

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
)

// retryMoving is the pause after which a script is sent again that found its keys on their way to another node.
const retryMoving = 2 * time.Millisecond

// once is a command that is not sent again after its reply was lost: it may have run.
type once struct{ redis.Cmder }

// NoRetry implements redis.Cmder.
func (once) NoRetry() bool { return true }

// run runs a script on the node that has its keys, at most once: a reply that is lost stays lost. What says that nothing
// ran is followed: the script is sent whole to a node that does not know it, and to where its keys have moved. The error
// of what is returned tells its kind, see [Kind].
func (c *Client) run(ctx context.Context, s script, keys []string, args ...any) *redis.Cmd {
	return runAs(ctx, c, redis.NewCmd, s, keys, args)
}

// command is a redis.Cmder whose keys can be found.
type command interface {
	redis.Cmder
	SetFirstKeyPos(pos int8)
}

// runAs is [Client.run] for a reply of one kind.
func runAs[C command](
	ctx context.Context, c *Client, reply func(context.Context, ...any) C, s script, keys []string, args []any,
) C {
	words := scriptWords(s, keys, args)
	cmd := sendSettled(ctx, c, reply, words)
	if kindOf(cmd.Err()) == kindNoScript {
		words[0], words[1] = "eval", s.source
		cmd = sendSettled(ctx, c, reply, words)
	}
	if err := cmd.Err(); err != nil {
		cmd.SetErr(withKind(err))
	}
	return cmd
}

// firstKey is the place of the first key in the words of a script's run.
const firstKey = 3

// scriptWords are the words of a command that runs a script by its SHA.
func scriptWords(s script, keys []string, args []any) []any {
	words := make([]any, 0, firstKey+len(keys)+len(args))
	words = append(words, "evalsha", s.Hash(), len(keys))
	for _, key := range keys {
		words = append(words, key)
	}
	return append(words, args...)
}

// sendSettled sends a script again while some of its keys are here and some there, for they move one by one. Nothing ran.
func sendSettled[C command](ctx context.Context, c *Client, reply func(context.Context, ...any) C, words []any) C {
	for {
		cmd := reply(ctx, words...)
		cmd.SetFirstKeyPos(firstKey)
		c.noticed(ctx, c.rdb.Process(ctx, once{cmd}))
		if !redis.IsTryAgainError(cmd.Err()) || !pause(ctx, retryMoving) {
			return cmd
		}
	}
}

// pause is false when ctx ends first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// nothingRan says whether a script that failed so can be sent again.
func nothingRan(err error) bool {
	return kindOf(err) == kindNoScript || redis.IsTryAgainError(err)
}

// noticed is told how a command ended. A cluster client looks for a new primary only when it sends a command again,
// which once forbids: so it is told to look when a node could not be reached.
func (c *Client) noticed(ctx context.Context, err error) {
	cluster, ok := c.rdb.(*redis.ClusterClient)
	if !ok || err == nil {
		return
	}
	var refused redis.Error // by a server that answers
	if !errors.As(err, &refused) || redis.IsClusterDownError(err) {
		cluster.ReloadState(ctx)
	}
}
