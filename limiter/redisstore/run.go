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
type once struct{ *redis.Cmd }

// NoRetry implements redis.Cmder.
func (once) NoRetry() bool { return true }

// run runs a script on the node that has its keys, at most once: a reply that is lost stays lost. What says that nothing
// ran is followed: the script is sent whole to a node that does not know it, and to where its keys have moved. The error
// of what is returned tells its kind, see [Kind].
func (c *Client) run(ctx context.Context, s script, keys []string, args ...any) *redis.Cmd {
	cmd := c.sendSettled(ctx, "evalsha", s.Hash(), keys, args)
	if kindOf(cmd.Err()) == kindNoScript {
		cmd = c.sendSettled(ctx, "eval", s.source, keys, args)
	}
	if err := cmd.Err(); err != nil {
		cmd.SetErr(withKind(err))
	}
	return cmd
}

// sendSettled sends a script again while some of its keys are here and some there, for they move one by one. Nothing ran.
func (c *Client) sendSettled(ctx context.Context, name, text string, keys []string, args []any) *redis.Cmd {
	for {
		cmd := c.send(ctx, name, text, keys, args)
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

func (c *Client) send(ctx context.Context, name, text string, keys []string, args []any) *redis.Cmd {
	words := make([]any, 0, 3+len(keys)+len(args))
	words = append(words, name, text, len(keys))
	for _, key := range keys {
		words = append(words, key)
	}
	cmd := redis.NewCmd(ctx, append(words, args...)...)
	if len(keys) > 0 {
		cmd.SetFirstKeyPos(3)
	}
	c.noticed(ctx, c.rdb.Process(ctx, once{cmd}))
	return cmd
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
