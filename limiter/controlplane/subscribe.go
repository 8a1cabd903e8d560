package controlplane

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// Subscribe returns a channel of published revisions. The subscription reconnects after a restart of Redis. The channel is
// closed when ctx ends or the client is closed.
//
// "" means "revisions may have been missed, call Current": it is the first value, and is sent after every reconnection. A
// slow reader misses older revisions, never the latest.
func (e *Exchange) Subscribe(ctx context.Context) <-chan string {
	out := make(chan string, 1)
	subscription := e.client.Redis().Subscribe(ctx, e.Channel())
	messages := subscription.ChannelWithSubscriptions()
	go func() {
		defer close(out)
		// Close fails only on a connection that is already closed.
		defer func() { _ = subscription.Close() }()
		for {
			select {
			case <-ctx.Done():
				return
			case m, open := <-messages:
				if !open {
					return
				}
				replace(out, payload(m))
			}
		}
	}()
	return out
}

// payload returns the revision of a message, "" for the confirmation of a subscription.
func payload(m any) string {
	if message, ok := m.(*redis.Message); ok {
		return message.Payload
	}
	return ""
}

// replace sends revision, and drops the previous one if the reader has not received it. out has capacity 1, and this
// goroutine is its only writer, so the send does not block.
func replace(out chan string, revision string) {
	select {
	case <-out:
	default:
	}
	out <- revision
}
