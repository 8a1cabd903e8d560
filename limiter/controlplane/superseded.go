package controlplane

import (
	"context"
	_ "embed" // for the scripts
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/limiter/redisclient"
	"github.com/weir-dev/weir/limiter/rules"
)

//go:embed superseded.lua
var supersededSource string

func newSupersededScript() redisclient.Script {
	return redisclient.NewScript("superseded", supersededSource)
}

const (
	// supersededFor is how long a superseded Set is kept: long enough for a replica that is loading it, and for a person who
	// wants to see the previous rules.
	supersededFor = time.Hour
	// manifestLonger is how much longer a manifest is kept than its shards: a node of a cluster can come back with data that is up to an hour old, which is
	// the default of Redis, where shards have no expiry. complete finds them only while another node has the manifest.
	manifestLonger = 2 * completeInterval
	// listedFor is how long the list of revisions is kept after the last publication. It bounds how long no operator may run after one has crashed.
	listedFor = 30 * 24 * time.Hour
	// maxListed bounds the list of revisions. When it is full, the oldest revision is dropped from the list: Clear
	// does not remove that Set, it expires.
	maxListed = 1000
	// completeInterval is how often an Exchange looks for Sets that have lost their expiry: Redis can come back with data from before the expiry was set.
	completeInterval = 10 * time.Minute
	// maxRecent is the number of Sets whose shards an Exchange remembers: more than are published while a node of a cluster is replaced.
	maxRecent = 64
)

// list lists revisions that can have keys without expiry, and returns the length of the list. It replaces a list that is no list.
func (e *Exchange) list(ctx context.Context, revisions ...string) (length int64, err error) {
	var pushed *redis.IntCmd
	add := func(p redis.Pipeliner) error {
		pushed = p.RPush(ctx, e.supersededKey(), revisions)
		p.LTrim(ctx, e.supersededKey(), -maxListed, -1)
		p.PExpire(ctx, e.supersededKey(), listedFor)
		return nil
	}
	_, err = e.client.Redis().Pipelined(ctx, add)
	if isWrongType(err) { // another program has written it
		if err = e.client.Redis().Del(ctx, e.supersededKey()).Err(); err == nil {
			_, err = e.client.Redis().Pipelined(ctx, add)
		}
	}
	if err != nil {
		return 0, fmt.Errorf("list rule sets %s in %s: %w", strings.Join(revisions, " and "), e.supersededKey(), err)
	}
	return pushed.Val(), nil
}

// listed returns the listed revisions, each once.
func (e *Exchange) listed(ctx context.Context) ([]string, error) {
	revisions, err := e.client.Run(ctx, e.listSuperseded, []string{e.supersededKey()}, maxListed, maxRevision).StringSlice()
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", e.supersededKey(), err)
	}
	slices.Sort(revisions)
	return slices.DeleteFunc(slices.Compact(revisions), func(revision string) bool { return !isRevision(revision) }), nil
}

// complete lets those Sets expire that are not active: those that a Publish has abandoned or has not let expire because it crashed or failed, those
// that a lost pointer named, and those whose expiry Redis has lost: a failover loses the last writes, and on a cluster each node can lose others. So the
// expiry of a manifest does not show that of its shards. It does nothing if it has succeeded recently, and all calls of Publish since. The Set is the
// active one, and Redis has all of it.
//
// It looks at the Sets in the list, and at those that this Exchange has published last, because Redis can also lose the list and manifests.
func (e *Exchange) complete(ctx context.Context, set *rules.Encoded) error {
	known := e.published.Load()
	if known != nil && time.Since(known.completed) < e.completeInterval {
		return nil
	}
	e.recent.add(set) // another Exchange can have published it
	listed, err := e.listed(ctx)
	isDenied := redisclient.Kind(err) == redisclient.KindDenied // then they stay
	if err != nil && !isDenied {
		return err
	}
	if !isDenied && !slices.Contains(listed, set.Revision) {
		_, _ = e.list(ctx, set.Revision)
	}
	others := slices.DeleteFunc(append(listed, e.recent.revisions()...), func(revision string) bool { return revision == set.Revision })
	slices.Sort(others)
	if err := e.expireAll(ctx, slices.Compact(others), set); err != nil {
		return err
	}
	next := published{set.Revision, set.Shards, time.Now(), time.Now()}
	if known != nil {
		next.verified = known.verified
	}
	e.published.Store(&next)
	return nil
}

// expireAll lets the Sets of these revisions expire, as far as they exist and have no expiry, with the shards that the next one does not have.
func (e *Exchange) expireAll(ctx context.Context, revisions []string, next *rules.Encoded) error {
	expiries, err := e.readExpiries(ctx, revisions, e.setKey)
	if err != nil {
		return fmt.Errorf("read the expiry of %d superseded rule sets: %w", len(revisions), err)
	}
	others := map[string]bool{}
	for _, hash := range e.recent.hashes() {
		others[hash] = true
	}
	existing := slices.DeleteFunc(slices.Clone(revisions), func(revision string) bool { return expiries[revision] == noKey })
	for chunk := range slices.Chunk(existing, readTogether) {
		shards, err := e.shardsOfAll(ctx, chunk)
		if err != nil {
			return err
		}
		maps.Copy(others, shards)
	}
	maps.DeleteFunc(others, func(hash string, _ bool) bool { _, isNeeded := next.Shards[hash]; return isNeeded })
	shards := slices.Sorted(maps.Keys(others))
	ofShards, err := e.readExpiries(ctx, shards, e.shardKey)
	if err != nil {
		return fmt.Errorf("read the expiry of %d shards: %w", len(shards), err)
	}
	var keys []string
	for _, hash := range shards {
		if ofShards[hash] == noExpiry {
			keys = append(keys, e.shardKey(hash))
		}
	}
	if err := e.expireKeys(ctx, keys, supersededFor); err != nil { // before the manifests, so that the next attempt finds the shards after an error
		return err
	}
	keys = nil
	for _, revision := range existing {
		if expiries[revision] == noExpiry {
			keys = append(keys, e.setKey(revision))
		}
	}
	return e.expireKeys(ctx, keys, supersededFor+manifestLonger)
}

// readExpiries returns the expiries of the keys of these names, by name. They can be noExpiry and noKey.
func (e *Exchange) readExpiries(ctx context.Context, names []string, key func(string) string) (map[string]time.Duration, error) {
	replies := make([]*redis.DurationCmd, len(names))
	_, err := e.client.Redis().Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, name := range names {
			replies[i] = p.PTTL(ctx, key(name))
		}
		return nil
	})
	expiries := make(map[string]time.Duration, len(names))
	for i, name := range names {
		expiries[name] = replies[i].Val()
	}
	return expiries, err
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

// expire lets these shards of a Set expire, and then its manifest, which is kept for manifestLonger: without it, complete does not find the shards.
func (e *Exchange) expire(ctx context.Context, revision string, hashes []string, expiry time.Duration) error {
	_, err := e.client.Redis().Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, hash := range hashes {
			p.PExpire(ctx, e.shardKey(hash), expiry)
		}
		return nil
	})
	if err == nil { // on a cluster, commands of one pipeline can fail separately
		err = e.client.Redis().PExpire(ctx, e.setKey(revision), expiry+manifestLonger).Err()
	}
	if err != nil {
		return fmt.Errorf("set the expiry of rule set %s: %w", revision, err)
	}
	return nil
}

// expireKeys lets shards or manifests expire.
func (e *Exchange) expireKeys(ctx context.Context, keys []string, expiry time.Duration) error {
	if len(keys) == 0 {
		return nil
	}
	_, err := e.client.Redis().Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, key := range keys {
			p.PExpire(ctx, key, expiry)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("set the expiry of %d keys of superseded rule sets: %w", len(keys), err)
	}
	return nil
}

// shardsOf returns the hashes of the shards of a revision. It returns no hashes if this Exchange has not published it recently, and the manifest is missing
// or cannot be decoded.
func (e *Exchange) shardsOf(ctx context.Context, revision string) ([]string, error) {
	if hashes := e.recent.shardsOf(revision); hashes != nil {
		return hashes, nil
	}
	data, found, err := e.loadManifest(ctx, revision)
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

// revisions returns the revisions of the Sets.
func (r *recentSets) revisions() (revisions []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.sets {
		revisions = append(revisions, s.revision)
	}
	return revisions
}

// hashes returns the hashes of the shards of all Sets.
func (r *recentSets) hashes() (hashes []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.sets {
		hashes = append(hashes, s.hashes...)
	}
	return hashes
}
