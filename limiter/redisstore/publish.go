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

// maxSuperseded is how many superseded Sets are known by name. Of more within supersededFor, the oldest are not there for
// Clear to remove, and expire.
const maxSuperseded = 1000

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
	return true, e.supersede(ctx, before)
}

// supersede has the Set of a revision expire, and notes it until then.
func (e *Exchange) supersede(ctx context.Context, revision string) error {
	_, err := e.client.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.PExpire(ctx, e.setKey(revision), supersededFor)
		p.RPush(ctx, e.supersededKey(), revision)
		p.LTrim(ctx, e.supersededKey(), -maxSuperseded, -1)
		p.PExpire(ctx, e.supersededKey(), supersededFor)
		return nil
	})
	if err != nil {
		return fmt.Errorf("let rule set %s expire: %w", revision, err)
	}
	return nil
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

// Leave has the Set in force expire as a superseded one does, and the pointer with it: the limiter meets elsewhere from now on,
// and replicas that still look here find it until then. Publish takes it back.
func (e *Exchange) Leave(ctx context.Context) error {
	revision, err := e.Current(ctx)
	if err != nil || revision == "" {
		return err
	}
	rdb := e.client.rdb
	if err := rdb.PExpire(ctx, e.setKey(revision), supersededFor+time.Minute).Err(); err != nil { // first: by this Publish sees it
		return fmt.Errorf("let rule set %s expire: %w", revision, err)
	}
	if err := rdb.PExpire(ctx, e.currentKey(), supersededFor).Err(); err != nil { // before the Set: it must never lead to nothing
		return fmt.Errorf("let %s expire: %w", e.currentKey(), err)
	}
	return nil
}

// Clear removes the Sets and the heartbeats: nobody is to find rules here any more. What it may not list, it leaves to expire.
func (e *Exchange) Clear(ctx context.Context) error {
	revision, err := e.Current(ctx)
	if err != nil {
		return err
	}
	rdb := e.client.rdb
	superseded, errList := rdb.LRange(ctx, e.supersededKey(), 0, -1).Result()
	if errList != nil {
		errList = fmt.Errorf("read %s: %w", e.supersededKey(), errList)
	}
	if err := rdb.Del(ctx, e.currentKey()).Err(); err != nil { // first: it must never lead to nothing
		return errors.Join(errList, fmt.Errorf("remove %s: %w", e.currentKey(), err))
	}
	_, err = rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, r := range append(superseded, revision) {
			p.Del(ctx, e.setKey(r)) // each may lie in another slot
		}
		p.Del(ctx, e.supersededKey())
		p.Del(ctx, e.replicasKey())
		return nil
	})
	if err != nil {
		err = fmt.Errorf("remove the rule sets and heartbeats of %s: %w", e.limiter, err)
	}
	return errors.Join(errList, err)
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
