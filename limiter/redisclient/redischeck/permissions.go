// Package redischeck finds out whether a Redis has what a limiter needs: permissions, clocks, and round trips that are short enough.
package redischeck

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/limiter/redisclient"
)

// Names are the keys and channels of a limiter in Redis.
type Names struct {
	// Counters is the prefix of all counters, which ends in a colon.
	Counters string
	// Reads are keys that the limiter only reads, and Writes those that it also writes, apart from counters.
	Reads, Writes []string
	// Channels are those that the limiter subscribes to, and Publishes is the one to which it publishes.
	Channels  []string
	Publishes string
}

// NamesOf returns the names that every limiter uses: counters with a prefix, and the channel of a prefix for invalidations.
func NamesOf(counters, prefix string) Names {
	invalidations := prefix + "forget"
	return Names{Counters: counters, Publishes: invalidations, Channels: []string{invalidations}}
}

// Replica has the names that a replica of a Limiter uses besides counters.
type Replica interface {
	// ReplicaKeys returns the key that it reads, and the one that it also writes.
	ReplicaKeys() (reads, writes string)
	// Channel is that of the rules.
	Channel() string
}

// WithReplica returns the names with those of a replica.
func (n Names) WithReplica(r Replica) Names {
	reads, writes := r.ReplicaKeys()
	n.Reads, n.Writes, n.Channels = append(n.Reads, reads), append(n.Writes, writes), append(n.Channels, r.Channel())
	return n
}

// Permission is one that a limiter needs.
type Permission struct {
	Rule     string // in the form of ACL SETUSER, such as +evalsha or ~weir:*
	Optional string // what is missing without it, "" if it is required
}

// Missing is a permission that the user does not have, or a command that the server does not have.
type Missing struct {
	Permission

	Reply string // of Redis

	unknown bool // the server does not have the command
}

// String describes what to change.
func (m Missing) String() string {
	what := "grant the user " + m.Rule
	if m.unknown {
		what = "the server has no command " + strings.TrimPrefix(m.Rule, "+") + ": allow it, or use another server"
	}
	if m.Optional != "" {
		what += "; without it, " + m.Optional
	}
	return what
}

// attempt is a command that needs a permission, and changes nothing but a counter that expires after a second.
type attempt struct {
	Permission

	words []any
}

// attempts returns a command for each permission that a limiter needs.
func (n Names) attempts() []attempt {
	key := n.Counters + "throttle:{check}:" + rules
	const expires = 1000 // milliseconds
	at := time.Now().Add(time.Second).UnixMilli()
	counter := func(command string, words ...any) attempt {
		return attempt{Permission{Rule: "+" + command}, append([]any{command}, words...)}
	}
	all := []attempt{
		counter("ping"), counter("time"),
		{Permission{"+info", "Weir does not know the version, the memory and the eviction policy of Redis"}, []any{"info", "server"}},
		counter("evalsha", strings.Repeat("0", 40), 1, key), counter("eval", "return 0", 1, key),
		counter("set", key, "", "px", expires), counter("mget", key), counter("getrange", key, 0, 0), counter("setrange", key, 0, ""),
		counter("pexpireat", key, at), counter("pexpire", key, expires),
		// The key is a string: hash commands that are permitted fail for its type.
		counter("hset", key, "f", ""),
		{Permission{"+hget", "policies with storage: Compact are decided locally"}, []any{"hget", key, "f"}},
		counter("hgetall", key), counter("hlen", key), counter("hdel", key, "f"),
		counter("del", key), counter("unlink", key),
	}
	for _, key := range n.Reads {
		all = append(all, attempt{Permission{Rule: "%R~" + key}, []any{"getrange", key, 0, 0}})
	}
	for _, key := range n.Writes {
		all = append(all, attempt{Permission{Rule: "~" + key}, []any{"hdel", key, "weir-check"}})
	}
	if n.Publishes != "" {
		all = append(all, counter("publish", n.Publishes, ""))
	}
	return all
}

// firstKey is the index of the first key in an EVALSHA command.
const firstKey = 3

// rules is the end of the key of the counter on which permissions are tried.
const rules = "check"

// MissingPermissions tries each command that a limiter needs, and returns those that Redis rejects, in one or two round trips. It counts nothing.
// Errors are those of an unavailable Redis.
func MissingPermissions(ctx context.Context, c *redisclient.Client, names Names) ([]Missing, error) {
	all := names.attempts()
	pipe := c.Redis().Pipeline()
	replies := make([]*redis.Cmd, len(all))
	for i, one := range all {
		replies[i] = redis.NewCmd(ctx, one.words...)
		if one.words[0] == "eval" || one.words[0] == "evalsha" {
			replies[i].SetFirstKeyPos(firstKey)
		}
		_ = pipe.Process(ctx, replies[i]) // only queues the command
	}
	if err := redisclient.Execute(ctx, pipe); err != nil {
		return nil, redisclient.WithKind(c.Explain(ctx, err))
	}
	var missing []Missing
	for i, reply := range replies {
		err := reply.Err()
		switch redisclient.Kind(err) {
		case redisclient.KindDenied, redisclient.KindMisconfigured:
			missing = append(missing, all[i].missing(err))
		case "", redisclient.KindNoScript, redisclient.KindOther: // the command ran; a nil reply, or the wrong type of a value
		default:
			return nil, redisclient.WithKind(c.Explain(ctx, fmt.Errorf("try %v: %w", all[i].words[0], err)))
		}
	}
	channels, err := missingChannels(ctx, c, names.Channels)
	slices.SortStableFunc(missing, func(a, b Missing) int { return strings.Compare(a.Rule, b.Rule) })
	return slices.CompactFunc(append(missing, channels...), func(a, b Missing) bool { return a.Rule == b.Rule }), err
}

// missing describes the rejection of an attempt. Redis reports whether it rejects the command, or a key or channel.
func (a attempt) missing(err error) Missing {
	rule := a.Rule
	switch text := err.Error(); {
	case !strings.HasPrefix(text, "NOPERM"):
	case strings.Contains(text, "channel"):
		rule = fmt.Sprint("&", a.words[1])
	case strings.Contains(text, "key") && strings.HasPrefix(a.Rule, "+"):
		rule = "~" + a.counters() + "*"
	case !strings.HasPrefix(a.Rule, "+") && !strings.Contains(text, "key"):
		rule = fmt.Sprint("+", a.words[0])
	}
	return Missing{Permission{rule, a.Optional}, err.Error(), redisclient.Kind(err) == redisclient.KindMisconfigured}
}

// counters returns the prefix of the key of an attempt that writes a counter.
func (a attempt) counters() string {
	for _, word := range a.words {
		if key, ok := word.(string); ok && strings.HasSuffix(key, "throttle:{check}:"+rules) {
			return strings.TrimSuffix(key, "{check}:"+rules)
		}
	}
	return ""
}

// withoutChannels is what is missing without a subscription: limiters poll the rules, and forget a known denial after some time.
const withoutChannels = "changed rules become active up to 3 s later, and resets and refunds of other processes up to 10 s later"

// missingChannels subscribes to each channel.
func missingChannels(ctx context.Context, c *redisclient.Client, channels []string) ([]Missing, error) {
	var missing []Missing
	for _, channel := range channels {
		subscription := c.Redis().Subscribe(ctx, channel)
		_, err := subscription.Receive(ctx)
		err = errors.Join(err, subscription.Close())
		switch redisclient.Kind(err) {
		case "":
		case redisclient.KindDenied, redisclient.KindMisconfigured:
			rule := "+subscribe"
			if strings.Contains(err.Error(), "channel") {
				rule = "&" + channel
			}
			missing = append(missing, Missing{Permission{rule, withoutChannels}, err.Error(), redisclient.Kind(err) == redisclient.KindMisconfigured})
		default:
			return nil, redisclient.WithKind(fmt.Errorf("subscribe to %s: %w", channel, err))
		}
	}
	return missing, nil
}
