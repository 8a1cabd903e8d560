package redisstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// supersededFor is how long a Set outlives its successor: time enough for a replica that is just loading it, and for
// a look at what was in force.
const supersededFor = time.Hour

// Publish makes data, the encoded Set of that revision, the one in force. It changes nothing if it is already and all
// of it is in place, so that repeating Publish repairs Redis after a loss and is cheap otherwise.
//
// The Set is written before the pointer to it, and its predecessor begins to expire after: a reader who follows the
// pointer finds the Set. A crash between the last two steps leaves one superseded Set without expiry, never a pointer
// to nothing. Two operators at once, which an election rules out but for moments, may leave the Set in force with the
// expiry of a superseded one, or the older in force: the next Publish of the one that stays puts either right.
func (e *Exchange) Publish(ctx context.Context, revision string, data []byte) (changed bool, err error) {
	ok, err := e.inPlace(ctx, revision)
	if err != nil || ok {
		return false, err
	}
	rdb := e.client.rdb
	if err := rdb.Set(ctx, e.setKey(revision), data, 0).Err(); err != nil {
		return false, fmt.Errorf("write rule set %s: %w", revision, err)
	}
	before, err := rdb.SetArgs(ctx, e.currentKey(), revision, redis.SetArgs{Get: true}).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return false, fmt.Errorf("point %s at %s: %w", e.currentKey(), revision, err)
	}
	if err := rdb.Publish(ctx, e.Channel(), revision).Err(); err != nil {
		return true, fmt.Errorf("tell %s of %s: %w", e.Channel(), revision, err)
	}
	if before == "" || before == revision {
		return true, nil
	}
	if err := rdb.PExpire(ctx, e.setKey(before), supersededFor).Err(); err != nil {
		return true, fmt.Errorf("let rule set %s expire: %w", before, err)
	}
	return true, nil
}

// inPlace says whether the pointer names revision and its Set is there to stay.
func (e *Exchange) inPlace(ctx context.Context, revision string) (bool, error) {
	var current *redis.StringCmd
	var ttl *redis.DurationCmd
	_, err := e.client.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		current = p.Get(ctx, e.currentKey())
		ttl = p.PTTL(ctx, e.setKey(revision))
		return nil
	})
	if err != nil && !errors.Is(err, redis.Nil) {
		return false, fmt.Errorf("look at %s: %w", e.currentKey(), err)
	}
	const noExpiry = -1 // of PTTL; -2 is "no such key"
	return current.Val() == revision && ttl.Val() == noExpiry, nil
}

// Current returns the revision in force, "" if none was ever published.
func (e *Exchange) Current(ctx context.Context) (string, error) {
	revision, err := e.client.rdb.Get(ctx, e.currentKey()).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return "", fmt.Errorf("read %s: %w", e.currentKey(), err)
	}
	return revision, nil
}

// Load returns the encoded Set of a revision, as it is: to see that it is that revision is the reader's business.
func (e *Exchange) Load(ctx context.Context, revision string) (data []byte, found bool, err error) {
	data, err = e.client.rdb.Get(ctx, e.setKey(revision)).Bytes()
	if errors.Is(err, redis.Nil) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("read rule set %s: %w", revision, err)
	}
	return data, true, nil
}

// Clear removes the Set in force and the heartbeats: nobody is to find rules here any more. Superseded Sets go by themselves.
func (e *Exchange) Clear(ctx context.Context) error {
	revision, err := e.Current(ctx)
	if err != nil {
		return err
	}
	keys := []string{e.currentKey(), e.replicasKey()} // the pointer first: it must never lead to nothing
	if revision != "" {
		keys = append(keys, e.setKey(revision))
	}
	for _, key := range keys { // each may lie in another slot
		if err := e.client.rdb.Del(ctx, key).Err(); err != nil {
			return fmt.Errorf("remove %s: %w", key, err)
		}
	}
	return nil
}

// Subscribe returns a channel of revisions as they are published, until ctx is done or the Client is closed; then the
// channel is closed. The subscription outlives restarts of Redis. "" stands for "messages may have been missed, look at Current": it comes
// first, and after every reconnection. A reader that lags loses the older of the messages, never the last.
func (e *Exchange) Subscribe(ctx context.Context) <-chan string {
	out := make(chan string, 1)
	subscription := e.client.rdb.Subscribe(ctx, e.Channel())
	messages := subscription.ChannelWithSubscriptions()
	go func() {
		defer close(out)
		// Close only ever fails on a connection that is gone already.
		defer func() { _ = subscription.Close() }()
		for {
			select {
			case <-ctx.Done():
				return
			case m, open := <-messages:
				if !open {
					return
				}
				latest(out, payload(m))
			}
		}
	}()
	return out
}

func payload(m any) string {
	if message, ok := m.(*redis.Message); ok {
		return message.Payload
	}
	return ""
}

// latest puts revision into the one place of out, in the stead of what its reader has not taken yet.
func latest(out chan string, revision string) {
	select {
	case <-out:
	default:
	}
	out <- revision // there is room: this goroutine is the only writer
}
