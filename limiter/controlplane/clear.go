package controlplane

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// Leave lets the active Set and the pointer expire, because the limiter moved to another Redis. Until then, replicas that
// still read this one find the Set. Publish undoes Leave.
func (e *Exchange) Leave(ctx context.Context) error {
	known := e.published.Swap(nil)
	e.stored.Store(nil)
	revision, err := e.Current(ctx)
	if err != nil {
		return err
	}
	if revision == "" && known != nil { // the pointer is lost
		revision = known.revision
	}
	if revision == "" {
		return nil
	}
	hashes, err := e.shardsOf(ctx, revision)
	if err != nil {
		return err
	}
	// First the expiry of the Set, because Publish checks it. The Set expires after the pointer, which must never name a
	// missing Set.
	if err := e.expire(ctx, revision, hashes, supersededFor+time.Minute); err != nil {
		return err
	}
	if err := e.client.Redis().PExpire(ctx, e.currentKey(), supersededFor).Err(); err != nil {
		return fmt.Errorf("set the expiry of %s: %w", e.currentKey(), err)
	}
	return nil
}

// Clear removes the Sets and the heartbeats, because the limiter was deleted. If it has no permission to list the superseded
// Sets, it leaves them to expire, and returns an error.
//
// First it lets the active Set expire: after the pointer, only the list of superseded Sets leads to what Clear has not removed.
func (e *Exchange) Clear(ctx context.Context) error {
	revision, err := e.Current(ctx)
	if err != nil {
		return err
	}
	if err := e.Leave(ctx); err != nil {
		return err
	}
	rdb := e.client.Redis()
	listed, errList := e.listed(ctx)
	if err := rdb.Del(ctx, e.currentKey()).Err(); err != nil { // first: the pointer must never name a missing Set
		return errors.Join(errList, fmt.Errorf("remove %s: %w", e.currentKey(), err))
	}
	shards, errShards := e.shardsOfAll(ctx, append(listed, revision))
	errList = errors.Join(errList, errShards)
	_, err = rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for hash := range shards {
			p.Del(ctx, e.shardKey(hash))
		}
		for _, r := range append(listed, revision) {
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

// shardsOfAll returns the hashes of the shards of these revisions.
func (e *Exchange) shardsOfAll(ctx context.Context, revisions []string) (map[string]bool, error) {
	all := map[string]bool{}
	for _, revision := range revisions {
		if revision == "" {
			continue
		}
		hashes, err := e.shardsOf(ctx, revision)
		if err != nil {
			return all, err
		}
		for _, hash := range hashes {
			all[hash] = true
		}
	}
	return all, nil
}
