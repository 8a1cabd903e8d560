package redisstore

import (
	"context"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/limiter/redisclient"
)

// InvalidationChannel is the name, for a prefix of keys ("weir:"), of the channel of counters whose cached denials are no
// longer valid because a refund or a reset changed them, see [WithInvalidations].
func InvalidationChannel(prefix string) string { return prefix + "forget" }

// resetMessage begins the message about a counter that was reset. The ID of the client that has reset it follows, and the key. The message
// about a refund is the key alone.
const resetMessage = "reset "

func (s *Store) resetMessage(key string) string { return resetMessage + s.client.ID() + " " + key }

// FollowInvalidations subscribes to channel until ctx ends or the client is closed. It calls invalidate for every key that a refund has
// changed, and reset for every key that another client has reset. It calls invalidateAll when keys may have been missed: when the subscription starts and
// after every reconnection. The calls are sequential. They must be quick: go-redis drops messages if hundreds of them wait for a minute.
func FollowInvalidations(
	ctx context.Context, client *redisclient.Client, channel string, invalidate, reset func(key string), invalidateAll func(),
) {
	subscription := client.Redis().Subscribe(ctx, channel)
	// Close fails only on a connection that is already closed.
	defer func() { _ = subscription.Close() }()
	messages := subscription.ChannelWithSubscriptions()
	for {
		select {
		case <-ctx.Done():
			return
		case message, open := <-messages:
			if !open {
				return
			}
			switch m := message.(type) {
			case *redis.Message:
				notify(m.Payload, client.ID(), invalidate, reset)
			case *redis.Subscription:
				invalidateAll()
			}
		}
	}
}

// notify calls invalidate or reset for a message. A client's own resets are left out: the process has reset what it knows before it sent the
// message, and what it has spent since then must remain.
func notify(message, own string, invalidate, reset func(key string)) {
	rest, isReset := strings.CutPrefix(message, resetMessage)
	if !isReset {
		invalidate(message)
		return
	}
	if sender, key, ok := strings.Cut(rest, " "); ok && sender != own {
		reset(key)
	}
}
