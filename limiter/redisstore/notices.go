package redisstore

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// NoticeChannel names the channel, for a prefix of keys ("weir:"), that is told the key of every counter from which a
// refund or a reset takes units, see [WithNotices].
func NoticeChannel(prefix string) string { return prefix + "forget" }

// Forgotten listens on channel until ctx is done or the Client is closed. It calls forget with every key it is told, and
// forgetAll when it may have missed some: as soon as it listens, and after every reconnection. The calls come one after
// the other. They should be quick: who lets hundreds of notices wait for a minute loses some unseen.
func (c *Client) Forgotten(ctx context.Context, channel string, forget func(key string), forgetAll func()) {
	subscription := c.rdb.Subscribe(ctx, channel)
	// Close only ever fails on a connection that is gone already.
	defer func() { _ = subscription.Close() }()
	notices := subscription.ChannelWithSubscriptions()
	for {
		select {
		case <-ctx.Done():
			return
		case notice, open := <-notices:
			if !open {
				return
			}
			switch n := notice.(type) {
			case *redis.Message:
				forget(n.Payload)
			case *redis.Subscription:
				forgetAll()
			}
		}
	}
}
