package redisstore

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/limiter/redisclient"
)

// InvalidationChannel is the name, for a prefix of keys ("weir:"), of the channel of counters whose cached denials are no
// longer valid because a refund or a reset changed them, see [WithInvalidations].
func InvalidationChannel(prefix string) string { return prefix + "forget" }

// FollowInvalidations subscribes to channel until ctx ends or the client is closed. It calls invalidate for every key that
// is published, and invalidateAll when keys may have been missed: when the subscription starts and after every reconnection.
// The calls are sequential. They must be quick: go-redis drops messages if hundreds of them wait for a minute.
func FollowInvalidations(
	ctx context.Context, client *redisclient.Client, channel string, invalidate func(key string), invalidateAll func(),
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
				invalidate(m.Payload)
			case *redis.Subscription:
				invalidateAll()
			}
		}
	}
}
