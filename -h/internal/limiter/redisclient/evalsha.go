package redisclient

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/go/internal/limiter/wait"
)

// tryAgainPause is the pause before a script is sent again whose keys are moving to another node.
const tryAgainPause = 2 * time.Millisecond

// noRetry is a command that go-redis must not retry: if its reply was lost, it may have run.
type noRetry struct{ redis.Cmder }

// NoRetry implements redis.Cmder.
func (noRetry) NoRetry() bool { return true }

// Run runs a script on the node that has its keys, at most once: it does not retry when the reply is lost. It does retry
// when the reply shows that nothing ran: it sends the source to a node that does not have the script, and follows keys
// that moved. The error of the result has a kind, see [Kind].
func (c *Client) Run(ctx context.Context, s Script, keys []string, args ...any) *redis.Cmd {
	return RunAs(ctx, c, redis.NewCmd, s, keys, args)
}

// command is a redis.Cmder with keys, which go-redis needs to find the node of a cluster.
type command interface {
	redis.Cmder
	SetFirstKeyPos(pos int8)
}

// RunAs is [Client.Run] for a reply of a specific type.
func RunAs[C command](
	ctx context.Context, c *Client, reply func(context.Context, ...any) C, s Script, keys []string, args []any,
) C {
	words := evalsha(s, keys, args)
	cmd := sendUntilMoved(ctx, c, reply, words)
	if kindOf(cmd.Err()) == KindNoScript {
		words[0], words[1] = "eval", s.Source
		cmd = sendUntilMoved(ctx, c, reply, words)
	}
	if err := cmd.Err(); err != nil {
		cmd.SetErr(WithKind(err))
	}
	return cmd
}

// RunOnNode runs a script without keys on a node of a cluster, at most once, as [Client.Run] does.
func RunOnNode[C redis.Cmder](
	ctx context.Context, c *Client, node *redis.Client, reply func(context.Context, ...any) C, s Script, args []any,
) C {
	words := evalsha(s, nil, args)
	cmd := reply(ctx, words...)
	c.RefreshTopology(ctx, node.Process(ctx, noRetry{cmd}))
	if kindOf(cmd.Err()) == KindNoScript {
		words[0], words[1] = "eval", s.Source
		cmd = reply(ctx, words...)
		c.RefreshTopology(ctx, node.Process(ctx, noRetry{cmd}))
	}
	if err := cmd.Err(); err != nil {
		cmd.SetErr(WithKind(err))
	}
	return cmd
}

// RunEach runs n scripts, each as [RunAs] does, in one round trip to the server, or to each node of a cluster. script returns script i with
// its keys and arguments. The errors of the results have a kind only if the script was sent again, which isLate reports: it ran after the others.
func RunEach[C command](
	ctx context.Context, c *Client, rdb redis.UniversalClient, reply func(context.Context, ...any) C,
	n int, script func(i int) (Script, []string, []any),
) (commands []C, isLate []bool) {
	commands, isLate = make([]C, n), make([]bool, n)
	pipe := rdb.Pipeline()
	for i := range commands {
		commands[i] = reply(ctx, evalsha(script(i))...)
		commands[i].SetFirstKeyPos(firstKey)
		_ = pipe.Process(ctx, noRetry{commands[i]}) // only queues the command
	}
	_, err := pipe.Exec(ctx)
	c.RefreshTopology(ctx, err)
	for i, cmd := range commands {
		if nothingRan(cmd.Err()) {
			s, keys, args := script(i)
			commands[i], isLate[i] = RunAs(ctx, c, reply, s, keys, args), true
		}
	}
	return commands, isLate
}

// firstKey is the index of the first key in an EVALSHA command.
const firstKey = 3

// evalsha returns the words of the command that runs a script by its SHA.
func evalsha(s Script, keys []string, args []any) []any {
	words := make([]any, 0, firstKey+len(keys)+len(args))
	words = append(words, "evalsha", s.SHA, len(keys))
	for i := range keys {
		words = append(words, &keys[i]) // as a pointer, a key takes no memory
	}
	return append(words, args...)
}

// sendUntilMoved sends a script again while Redis replies TRYAGAIN. It does so while a slot moves key by key, when some of
// the keys of the script are on the old node and some on the new one. Nothing ran then.
func sendUntilMoved[C command](ctx context.Context, c *Client, reply func(context.Context, ...any) C, words []any) C {
	for {
		cmd := reply(ctx, words...)
		cmd.SetFirstKeyPos(firstKey)
		c.RefreshTopology(ctx, c.Redis().Process(ctx, noRetry{cmd}))
		if !redis.IsTryAgainError(cmd.Err()) || !wait.Sleep(ctx, tryAgainPause) {
			return cmd
		}
	}
}

// nothingRan reports whether err shows that the script did not run and can be sent again.
func nothingRan(err error) bool {
	return kindOf(err) == KindNoScript || redis.IsTryAgainError(err)
}

// RefreshTopology makes a cluster client look for new primaries if err, the error of a command, shows that a node is
// unreachable or that the cluster is down. go-redis does so itself only when it retries a command, which [Client.Run]
// forbids.
func (c *Client) RefreshTopology(ctx context.Context, err error) {
	cluster, ok := c.Cluster()
	if !ok || err == nil {
		return
	}
	var reply redis.Error // an error reply: the server is reachable
	if !errors.As(err, &reply) || redis.IsClusterDownError(err) {
		cluster.ReloadState(ctx)
	}
}
