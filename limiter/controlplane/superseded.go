package controlplane

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/limiter/rules"
)

const (
	// supersededFor is how long a superseded Set is kept: long enough for a replica that is loading it, and for a person who
	// wants to see the previous rules.
	supersededFor = time.Hour
	// listedFor is how long the list of revisions is kept after the last publication. It bounds how long no operator may run after one has crashed.
	listedFor = 30 * 24 * time.Hour
	// maxListed bounds the list of revisions. When it is full, the oldest revision is dropped from the list: Clear
	// does not remove that Set, it expires.
	maxListed = 1000
	// completeInterval is how often an Exchange looks for Sets that have lost their expiry: Redis can come back with data from before the expiry was set.
	completeInterval = 10 * time.Minute
	// maxRecent is the number of Sets whose shards an Exchange remembers: more than are published while one command is in progress.
	maxRecent = 8
)

// list lists revisions that can have keys without expiry. It replaces a list that is no list.
func (e *Exchange) list(ctx context.Context, revisions ...string) error {
	add := func(p redis.Pipeliner) error { e.addToList(ctx, p, revisions); return nil }
	_, err := e.client.Redis().Pipelined(ctx, add)
	if isWrongType(err) { // another program has written it
		if err = e.client.Redis().Del(ctx, e.supersededKey()).Err(); err == nil {
			_, err = e.client.Redis().Pipelined(ctx, add)
		}
	}
	if err != nil {
		return fmt.Errorf("list rule sets %s in %s: %w", strings.Join(revisions, " and "), e.supersededKey(), err)
	}
	return nil
}

func (e *Exchange) addToList(ctx context.Context, p redis.Pipeliner, revisions []string) []redis.Cmder {
	return []redis.Cmder{
		p.RPush(ctx, e.supersededKey(), revisions), p.LTrim(ctx, e.supersededKey(), -maxListed, -1), p.PExpire(ctx, e.supersededKey(), listedFor),
	}
}

// listed returns the listed revisions, each once.
func (e *Exchange) listed(ctx context.Context) ([]string, error) {
	revisions, err := e.client.Redis().LRange(ctx, e.supersededKey(), 0, -1).Result()
	if err != nil && !isWrongType(err) {
		return nil, fmt.Errorf("read %s: %w", e.supersededKey(), err)
	}
	slices.Sort(revisions)
	return slices.DeleteFunc(slices.Compact(revisions), func(revision string) bool { return !isRevision(revision) }), nil
}

// complete lets those Sets expire that are not active: those that a Publish has abandoned or has not let expire because it crashed or failed, and those
// that a lost pointer named. It does nothing if it has succeeded recently, and all calls of Publish since. The Set is the active one, and Redis has all
// of it.
//
// It looks at the manifests in the list, and at the shards of the Sets that this Exchange has published last: each node of a cluster can lose something else.
func (e *Exchange) complete(ctx context.Context, set *rules.Encoded) error {
	known := e.published.Load()
	if known != nil && time.Since(known.completed) < e.completeInterval {
		return nil
	}
	listed, err := e.listed(ctx)
	isDenied := err != nil && strings.Contains(err.Error(), "NOPERM") // then they stay
	if err != nil && !isDenied {
		return err
	}
	if !isDenied && !slices.Contains(listed, set.Revision) {
		_ = e.list(ctx, set.Revision)
	}
	others := slices.DeleteFunc(listed, func(revision string) bool { return revision == set.Revision })
	var keys []string
	for _, hash := range e.recent.hashesWithout(set) {
		keys = append(keys, e.shardKey(hash))
	}
	for _, revision := range others {
		keys = append(keys, e.setKey(revision))
	}
	remain, err := e.withoutExpiry(ctx, keys)
	if err != nil {
		return fmt.Errorf("read the expiry of %d superseded rule sets: %w", len(others), err)
	}
	for _, revision := range others {
		if remain[e.setKey(revision)] {
			if err := e.supersede(ctx, revision, set); err != nil {
				return err
			}
			delete(remain, e.setKey(revision))
		}
	}
	if err := e.expireKeys(ctx, slices.Sorted(maps.Keys(remain))); err != nil {
		return err
	}
	next := published{set.Revision, set.Shards, time.Now(), time.Now()}
	if known != nil {
		next.verified = known.verified
	}
	e.published.Store(&next)
	return nil
}

// withoutExpiry returns those of the keys that exist and have no expiry.
func (e *Exchange) withoutExpiry(ctx context.Context, keys []string) (map[string]bool, error) {
	expiries := make([]*redis.DurationCmd, len(keys))
	_, err := e.client.Redis().Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, key := range keys {
			expiries[i] = p.PTTL(ctx, key)
		}
		return nil
	})
	remain := map[string]bool{}
	for i, key := range keys {
		if expiries[i].Val() == noExpiry {
			remain[key] = true
		}
	}
	return remain, err
}

// supersede lets the Set of a revision expire, with the shards that the next one does not have.
func (e *Exchange) supersede(ctx context.Context, revision string, next *rules.Encoded) error {
	hashes, err := e.shardsOf(ctx, revision)
	if err != nil {
		return err
	}
	hashes = slices.DeleteFunc(slices.Clone(hashes), func(hash string) bool { _, isNeeded := next.Shards[hash]; return isNeeded })
	return e.expire(ctx, revision, hashes, supersededFor)
}

// expire lets these shards of a Set expire, and then its manifest: complete concludes from its expiry that the shards expire.
func (e *Exchange) expire(ctx context.Context, revision string, hashes []string, expiry time.Duration) error {
	_, err := e.client.Redis().Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, hash := range hashes {
			p.PExpire(ctx, e.shardKey(hash), expiry)
		}
		return nil
	})
	if err == nil { // on a cluster, commands of one pipeline can fail separately
		err = e.client.Redis().PExpire(ctx, e.setKey(revision), expiry).Err()
	}
	if err != nil {
		return fmt.Errorf("set the expiry of rule set %s: %w", revision, err)
	}
	return nil
}

// expireKeys lets shards expire.
func (e *Exchange) expireKeys(ctx context.Context, keys []string) error {
	if len(keys) == 0 {
		return nil
	}
	_, err := e.client.Redis().Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, key := range keys {
			p.PExpire(ctx, key, supersededFor)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("set the expiry of %d shards: %w", len(keys), err)
	}
	return nil
}

// shardsOf returns the hashes of the shards of a revision. It returns no hashes if this Exchange has not published it recently, and the manifest is missing
// or cannot be decoded.
func (e *Exchange) shardsOf(ctx context.Context, revision string) ([]string, error) {
	if hashes := e.recent.shardsOf(revision); hashes != nil {
		return hashes, nil
	}
	data, found, err := e.Load(ctx, revision)
	if err != nil || !found {
		return nil, err
	}
	m, err := rules.DecodeManifest(data)
	if err != nil {
		return []string{}, nil //nolint:nilerr // another version has written it, or it is damaged
	}
	return slices.Collect(m.Hashes()), nil
}

// recentSets remembers the shards of the Sets that an Exchange has begun to publish last: their manifests can be lost. It is safe for concurrent use.
type recentSets struct {
	mu   sync.Mutex
	sets []recentSet // oldest first
}

type recentSet struct {
	revision string
	hashes   []string // not nil
}

func (r *recentSets) add(set *rules.Encoded) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sets = slices.DeleteFunc(r.sets, func(s recentSet) bool { return s.revision == set.Revision })
	if len(r.sets) == maxRecent {
		r.sets = slices.Delete(r.sets, 0, 1)
	}
	r.sets = append(r.sets, recentSet{set.Revision, slices.AppendSeq(make([]string, 0, len(set.Shards)), maps.Keys(set.Shards))})
}

// shardsOf returns the hashes of the shards of a revision, nil if it is unknown.
func (r *recentSets) shardsOf(revision string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.sets {
		if s.revision == revision {
			return s.hashes
		}
	}
	return nil
}

// hashesWithout returns the hashes that set does not have, each once.
func (r *recentSets) hashesWithout(set *rules.Encoded) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	others := map[string]bool{}
	for _, s := range r.sets {
		for _, hash := range s.hashes {
			if _, isNeeded := set.Shards[hash]; !isNeeded {
				others[hash] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(others))
}
