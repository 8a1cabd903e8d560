package redisstore

import (
	"context"
	"strings"

	"github.com/weir-dev/weir/go/internal/limiter/redisclient"
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
// after every reconnection. The calls are sequential. They must be quick, because the server drops a subscription with too many messages that wait.
func FollowInvalidations(
	ctx context.Context, client *redisclient.Client, channel string, invalidate, reset func(key string), invalidateAll func(),
) {
	client.Follow(ctx, channel, func(message string) { notify(message, client.ID(), invalidate, reset) }, invalidateAll)
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
