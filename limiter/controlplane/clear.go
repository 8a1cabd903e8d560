package controlplane

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/limiter/rules"
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
	if revision != "" {
		listed = append(listed, revision)
	}
	if err := e.removeSets(ctx, listed); err != nil { // the list stays for the next attempt
		return errors.Join(errList, err)
	}
	_, err = rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.Del(ctx, e.supersededKey())
		p.Del(ctx, e.replicasKey())
		return nil
	})
	if err != nil {
		err = fmt.Errorf("remove the rule sets and heartbeats of %s: %w", e.limiter, err)
	}
	return errors.Join(errList, err)
}

// readTogether is the number of Sets whose manifests are read together.
const readTogether = 16

// removeSets removes the Sets of these revisions, as far as they exist. Most listed ones have expired. A second call goes on where a failed one ended.
func (e *Exchange) removeSets(ctx context.Context, revisions []string) error {
	expiries, err := e.readExpiries(ctx, revisions, e.setKey)
	if err != nil {
		return fmt.Errorf("read the expiry of %d rule sets of %s: %w", len(revisions), e.limiter, err)
	}
	var existing []string
	for _, revision := range revisions {
		if expiries[revision] != noKey || e.recent.shardsOf(revision) != nil {
			existing = append(existing, revision)
		}
	}
	for chunk := range slices.Chunk(existing, readTogether) {
		shards, err := e.shardsOfAll(ctx, chunk)
		if err != nil {
			return err
		}
		_, err = e.client.Redis().Pipelined(ctx, func(p redis.Pipeliner) error { // one command per key: on a cluster they are in different slots
			for hash := range shards {
				p.Del(ctx, e.shardKey(hash))
			}
			for _, revision := range chunk {
				p.Del(ctx, e.setKey(revision))
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("remove %d rule sets of %s: %w", len(chunk), e.limiter, err)
		}
	}
	return nil
}

// shardsOfAll returns the hashes of the shards of these revisions.
func (e *Exchange) shardsOfAll(ctx context.Context, revisions []string) (map[string]bool, error) {
	manifests := make([]*redis.StringCmd, len(revisions))
	_, _ = e.client.Redis().Pipelined(ctx, func(p redis.Pipeliner) error { // its error is that of the first command
		for i, revision := range revisions {
			manifests[i] = beginning(ctx, p, e.setKey(revision), maxManifest)
		}
		return nil
	})
	all := map[string]bool{}
	for i, revision := range revisions {
		data, err := manifests[i].Bytes()
		if err != nil && !isWrongType(err) {
			return nil, fmt.Errorf("read rule set %s: %w", revision, err)
		}
		for _, hash := range e.recent.shardsOf(revision) {
			all[hash] = true
		}
		if m, err := rules.DecodeManifest(data); err == nil { // otherwise another version has written it, or it is damaged
			for hash := range m.Hashes() {
				all[hash] = true
			}
		}
	}
	return all, nil
}
