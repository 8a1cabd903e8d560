package redisclient

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/go/internal/limiter/wait"
)

const (
	// heartbeat is how long a subscription is silent before a ping, and how long its server has for the answer.
	// go-redis only writes pings, and keeps a subscription to a dead host until the operating system gives up.
	heartbeat = time.Second
	// The pauses between attempts to subscribe.
	firstResubscription, maxResubscription = 100 * time.Millisecond, time.Second
)

// Follow subscribes to channel until ctx ends or the client is closed. It calls received for each message, and subscribed whenever messages may have
// been missed: when the subscription starts, and after each reconnection. The calls are sequential. It subscribes again if the server does not answer
// for two seconds, and after each [Client.Recovered]: another server may be the primary now.
func (c *Client) Follow(ctx context.Context, channel string, received func(payload string), subscribed func()) {
	for pause := firstResubscription; ; pause = min(2*pause, maxResubscription) {
		began := time.Now()
		err := c.followOnce(ctx, channel, received, subscribed)
		if ctx.Err() != nil || errors.Is(err, redis.ErrClosed) {
			return
		}
		if time.Since(began) > 2*maxResubscription {
			pause = firstResubscription
		}
		if err != nil && !wait.Sleep(ctx, wait.Jittered(pause)) {
			return
		}
	}
}

// followOnce follows a channel on one connection. It returns nil after a recovery.
func (c *Client) followOnce(ctx context.Context, channel string, received func(payload string), subscribed func()) error {
	recovery := c.recovery.next()
	subscription := c.Redis().Subscribe(ctx, channel)
	// Close fails only on a connection that is already closed.
	defer func() { _ = subscription.Close() }()
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		select {
		case <-ctx.Done():
		case <-recovery:
		case <-ended:
		}
		_ = subscription.Close() // ends the read below
	}()
	asked := false
	for {
		message, err := subscription.ReceiveTimeout(ctx, heartbeat)
		select {
		case <-recovery:
			return nil
		default:
		}
		switch m := message.(type) {
		case *redis.Message:
			received(m.Payload)
		case *redis.Subscription:
			subscribed()
		}
		var reply redis.Error
		switch {
		case err == nil, asked && errors.As(err, &reply): // a server that forbids the ping answers, too
			asked = false
		case asked || !errors.Is(err, os.ErrDeadlineExceeded):
			return err
		default:
			if err := subscription.Ping(ctx); err != nil {
				return err
			}
			asked = true
		}
	}
}

// Recovered makes the subscriptions of the client connect again. Call it when Redis is available again after an outage.
func (c *Client) Recovered() { c.recovery.announce() }

// recovery announces recoveries.
type recovery struct {
	mu    sync.Mutex
	after chan struct{} // closed at the next recovery; nil if nothing waits for it
}

// next returns a channel that is closed at the next recovery.
func (r *recovery) next() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.after == nil {
		r.after = make(chan struct{})
	}
	return r.after
}

func (r *recovery) announce() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.after != nil {
		close(r.after)
		r.after = nil
	}
}
