package controlplane

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/limiter/rules"
)

// supersededFor is how long a superseded Set is kept: long enough for a replica that is loading it, and for a person who
// wants to see the previous rules.
const supersededFor = time.Hour

// maxSuperseded bounds the list of superseded Sets. When it is full, the oldest revision is dropped from the list: Clear
// does not remove that Set, it expires.
const maxSuperseded = 1000

// Active returns the active revision and the sequence of its Set. The revision is "" if no Set is active, and the sequence is 0 if the Set has
// no sequence, or is missing or damaged.
func (e *Exchange) Active(ctx context.Context) (revision string, sequence int64, err error) {
	revision, err = e.Current(ctx)
	if err != nil || revision == "" {
		return "", 0, err
	}
	if known := e.stored.Load(); known != nil && known.revision == revision {
		return revision, known.sequence, nil
	}
	data, _, err := e.Load(ctx, revision)
	if err != nil {
		return "", 0, err
	}
	sequence, _ = rules.Sequence(data) // 0 after an error
	e.stored.Store(&version{revision, sequence})
	return revision, sequence, nil
}

// Publish makes data, the encoded Set of revision, the active Set. If the Set is already active and complete, with the same sequence if data
// has one, it changes nothing. So calling Publish again is cheap, and repairs Redis after a loss of data.
//
// It writes the Set, then the pointer, and then lets the previous Set expire: a reader who follows the pointer always finds
// the Set. A crash between the last two steps leaves one superseded Set without expiry, never a pointer to a missing Set.
// Leader election excludes two operators at the same time except for moments; see BeforeReplacing. They can leave the active Set with the
// expiry of a superseded one, or the older Set active. The next Publish of the remaining operator repairs either.
func (e *Exchange) Publish(ctx context.Context, revision string, data []byte) (changed bool, err error) {
	next := version{revision: revision}
	next.sequence, _ = rules.Sequence(data) // 0 after an error
	current, active, err := e.isActive(ctx, next)
	if err != nil || active {
		return false, err
	}
	if current != "" && current != revision && e.confirm != nil {
		if err := e.confirm(ctx); err != nil {
			return false, fmt.Errorf("replace rule set %s by %s: %w", current, revision, err)
		}
	}
	rdb := e.client.Redis()
	e.stored.Store(nil) // until the pointer is written
	if err := rdb.Set(ctx, e.setKey(revision), data, 0).Err(); err != nil {
		return false, fmt.Errorf("write rule set %s: %w", revision, err)
	}
	previous, err := rdb.SetArgs(ctx, e.currentKey(), revision, redis.SetArgs{Get: true}).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return false, fmt.Errorf("set %s to %s: %w", e.currentKey(), revision, err)
	}
	e.stored.Store(&next)
	if err := rdb.Publish(ctx, e.Channel(), revision).Err(); err != nil {
		return true, fmt.Errorf("publish revision %s on channel %s: %w", revision, e.Channel(), err)
	}
	if previous == "" || previous == revision {
		return true, nil
	}
	return true, e.supersede(ctx, previous)
}

// supersede lets the Set of a revision expire, and lists the revision until then.
func (e *Exchange) supersede(ctx context.Context, revision string) error {
	_, err := e.client.Redis().Pipelined(ctx, func(p redis.Pipeliner) error {
		p.PExpire(ctx, e.setKey(revision), supersededFor)
		p.RPush(ctx, e.supersededKey(), revision)
		p.LTrim(ctx, e.supersededKey(), -maxSuperseded, -1)
		p.PExpire(ctx, e.supersededKey(), supersededFor)
		return nil
	})
	if err != nil {
		return fmt.Errorf("set the expiry of rule set %s: %w", revision, err)
	}
	return nil
}

// isActive reports which revision the pointer names, and whether it is the next one, and its Set exists without expiry and has the next
// sequence, if there is one.
func (e *Exchange) isActive(ctx context.Context, next version) (current string, active bool, err error) {
	revision := next.revision
	var pointer *redis.StringCmd
	var ttl *redis.DurationCmd
	_, _ = e.client.Redis().Pipelined(ctx, func(p redis.Pipeliner) error { // its error is that of the first command, which can be redis.Nil
		pointer = p.Get(ctx, e.currentKey())
		ttl = p.PTTL(ctx, e.setKey(revision))
		return nil
	})
	if err := pointer.Err(); err != nil && !errors.Is(err, redis.Nil) {
		e.stored.Store(nil) // Redis can come back with other data
		return "", false, fmt.Errorf("read %s: %w", e.currentKey(), err)
	}
	if err := ttl.Err(); err != nil {
		return "", false, fmt.Errorf("read the expiry of %s: %w", e.setKey(revision), err)
	}
	const noExpiry = -1 // of PTTL; -2 means "no such key"
	if pointer.Val() != revision || ttl.Val() != noExpiry {
		return pointer.Val(), false, nil
	}
	if next.sequence == 0 {
		return revision, true, nil
	}
	_, sequence, err := e.Active(ctx)
	return revision, sequence == next.sequence, err
}

// Current returns the active revision, "" if no Set was ever published.
func (e *Exchange) Current(ctx context.Context) (string, error) {
	revision, err := e.client.Redis().Get(ctx, e.currentKey()).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return "", fmt.Errorf("read %s: %w", e.currentKey(), err)
	}
	return revision, nil
}

// Load returns the encoded Set of a revision. It does not verify that data is that revision; the caller does.
func (e *Exchange) Load(ctx context.Context, revision string) (data []byte, found bool, err error) {
	data, err = e.client.Redis().Get(ctx, e.setKey(revision)).Bytes()
	if errors.Is(err, redis.Nil) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("read rule set %s: %w", revision, err)
	}
	return data, true, nil
}

// Leave lets the active Set and the pointer expire, because the limiter moved to another Redis. Until then, replicas that
// still read this one find the Set. Publish undoes Leave.
func (e *Exchange) Leave(ctx context.Context) error {
	revision, err := e.Current(ctx)
	if err != nil || revision == "" {
		return err
	}
	rdb := e.client.Redis()
	// First the expiry of the Set, because Publish checks it. The Set expires after the pointer, which must never name a
	// missing Set.
	if err := rdb.PExpire(ctx, e.setKey(revision), supersededFor+time.Minute).Err(); err != nil {
		return fmt.Errorf("set the expiry of rule set %s: %w", revision, err)
	}
	if err := rdb.PExpire(ctx, e.currentKey(), supersededFor).Err(); err != nil {
		return fmt.Errorf("set the expiry of %s: %w", e.currentKey(), err)
	}
	return nil
}

// Clear removes the Sets and the heartbeats, because the limiter was deleted. If it has no permission to list the superseded
// Sets, it leaves them to expire, and returns an error.
func (e *Exchange) Clear(ctx context.Context) error {
	revision, err := e.Current(ctx)
	if err != nil {
		return err
	}
	rdb := e.client.Redis()
	superseded, errList := rdb.LRange(ctx, e.supersededKey(), 0, -1).Result()
	if errList != nil {
		errList = fmt.Errorf("read %s: %w", e.supersededKey(), errList)
	}
	if err := rdb.Del(ctx, e.currentKey()).Err(); err != nil { // first: the pointer must never name a missing Set
		return errors.Join(errList, fmt.Errorf("remove %s: %w", e.currentKey(), err))
	}
	_, err = rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, r := range append(superseded, revision) {
			p.Del(ctx, e.setKey(r)) // one command per key: on a cluster they are in different slots
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
