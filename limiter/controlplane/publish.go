package controlplane

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
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

// Publish makes set the active Set. If the Set is already active and complete, with the same sequence if it has one, Publish changes nothing. So
// calling Publish again is cheap, and repairs Redis after a loss of data. With rewrite, it also replaces data that could be damaged.
//
// It writes the shards that Redis does not have, then the manifest, then the pointer, and then lets the previous Set expire: a reader who follows the
// pointer always finds the Set. The shards expire until the pointer is written, so that a crash leaves no shard for ever. A crash after the pointer
// leaves shards that expire, or the previous Set without expiry, never a pointer to a missing Set. The next Publish, also of another Exchange, repairs
// that: it finds the previous Set in the list of superseded ones.
// Leader election excludes two operators at the same time except for moments; see BeforeReplacing. They can leave the active Set with the
// expiry of a superseded one, or the older Set active. The next Publish of the remaining operator repairs either.
func (e *Exchange) Publish(ctx context.Context, set rules.Encoded, rewrite bool) (changed bool, err error) {
	next := version{revision: set.Revision}
	next.sequence, _ = rules.Sequence(set.Data) // 0 after an error
	found, err := e.find(ctx, &set)
	if err != nil {
		return false, err
	}
	if rewrite {
		found = stored{current: found.current, lacking: slices.Sorted(maps.Keys(set.Shards)), verified: time.Now()}
	}
	if found.hasManifest && found.current == set.Revision && len(found.lacking) == 0 {
		_, sequence, err := e.Active(ctx)
		if err != nil {
			return false, err
		}
		if next.sequence == 0 || sequence == next.sequence {
			return false, e.complete(ctx, &set)
		}
	}
	if found.current != "" && found.current != set.Revision && e.confirm != nil {
		if err := e.confirm(ctx); err != nil {
			return false, fmt.Errorf("replace rule set %s by %s: %w", found.current, set.Revision, err)
		}
	}
	e.stored.Store(nil) // until the pointer is written
	known := e.published.Swap(nil)
	if found.current != set.Revision {
		if err := e.writeShards(ctx, &set, found.lacking, supersededFor); err != nil {
			return false, err
		}
	}
	isListed, err := e.writeManifest(ctx, &set, found.current)
	if err != nil {
		return false, err
	}
	rdb := e.client.Redis()
	previous, err := rdb.SetArgs(ctx, e.currentKey(), set.Revision, redis.SetArgs{Get: true}).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return false, fmt.Errorf("set %s to %s: %w", e.currentKey(), set.Revision, err)
	}
	e.stored.Store(&next)
	if err := e.writeShards(ctx, &set, found.lacking, 0); err != nil { // they are active now, and must not expire
		return true, err
	}
	if err := rdb.Publish(ctx, e.Channel(), set.Revision).Err(); err != nil {
		return true, fmt.Errorf("publish revision %s on channel %s: %w", set.Revision, e.Channel(), err)
	}
	if previous != "" && previous != set.Revision {
		if err := e.supersede(ctx, previous, known, &set, isListed && previous == found.current); err != nil {
			return true, err
		}
	}
	if known == nil {
		return true, e.complete(ctx, &set)
	}
	e.published.Store(&published{set.Revision, set.Shards, found.verified})
	return true, nil
}

// complete lets those Sets expire that a Publish has replaced, and has not let expire because it crashed or failed. It does nothing if the last Publish
// of this Exchange has succeeded. The Set is the active one, and Redis has all of it.
func (e *Exchange) complete(ctx context.Context, set *rules.Encoded) error {
	if e.published.Load() != nil {
		return nil
	}
	listed, err := e.client.Redis().LRange(ctx, e.supersededKey(), 0, -1).Result()
	if err != nil && !strings.HasPrefix(err.Error(), "NOPERM") && !isWrongType(err) { // then they stay
		return fmt.Errorf("read %s: %w", e.supersededKey(), err)
	}
	slices.Sort(listed)
	listed = slices.DeleteFunc(slices.Compact(listed), func(revision string) bool { return revision == set.Revision })
	expiries := make([]*redis.DurationCmd, len(listed))
	_, err = e.client.Redis().Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, revision := range listed {
			expiries[i] = p.PTTL(ctx, e.setKey(revision))
		}
		p.PExpire(ctx, e.supersededKey(), supersededFor)
		return nil
	})
	if err != nil {
		return fmt.Errorf("read the expiry of %d superseded rule sets: %w", len(listed), err)
	}
	for i, revision := range listed {
		if expiries[i].Val() == noExpiry {
			if err := e.supersede(ctx, revision, nil, set, true); err != nil {
				return err
			}
		}
	}
	e.published.Store(&published{set.Revision, set.Shards, time.Now()})
	return nil
}

// writeShards writes these shards of the Set. They have no expiry if it is 0.
func (e *Exchange) writeShards(ctx context.Context, set *rules.Encoded, hashes []string, expiry time.Duration) error {
	if len(hashes) == 0 {
		return nil
	}
	_, err := e.client.Redis().Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, hash := range hashes { // one command per key: on a cluster they are in different slots
			p.Set(ctx, e.shardKey(hash), set.Shards[hash], expiry)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("write %d shards of rule set %s: %w", len(hashes), set.Revision, err)
	}
	return nil
}

// writeManifest writes the manifest of a Set, and lists the revision that it replaces, which can be "": after a crash, the next Publish finds it there.
// If only the list cannot be written, isListed is false: the list delays no rules.
func (e *Exchange) writeManifest(ctx context.Context, set *rules.Encoded, replaced string) (isListed bool, err error) {
	var listed []redis.Cmder
	var written *redis.StatusCmd
	_, _ = e.client.Redis().Pipelined(ctx, func(p redis.Pipeliner) error { // its error is that of the first command
		if replaced != "" && replaced != set.Revision {
			listed = e.list(ctx, p, replaced)
		}
		written = p.Set(ctx, e.setKey(set.Revision), set.Data, 0)
		return nil
	})
	if err := written.Err(); err != nil {
		return false, fmt.Errorf("write rule set %s: %w", set.Revision, err)
	}
	hasFailed := func(c redis.Cmder) bool { return c.Err() != nil }
	return listed != nil && !slices.ContainsFunc(listed, hasFailed), nil
}

// supersede lets the Set of a revision expire, with the shards that the next one does not have, and lists the revision until then.
func (e *Exchange) supersede(ctx context.Context, revision string, known *published, next *rules.Encoded, isListed bool) (err error) {
	var hashes []string
	if known != nil && known.revision == revision {
		hashes = slices.Sorted(maps.Keys(known.shards))
	} else if hashes, err = e.shardsOf(ctx, revision); err != nil {
		return err
	}
	hashes = slices.DeleteFunc(hashes, func(hash string) bool { _, isNeeded := next.Shards[hash]; return isNeeded })
	if err := e.expire(ctx, revision, hashes, supersededFor); err != nil || isListed {
		return err
	}
	_, err = e.client.Redis().Pipelined(ctx, func(p redis.Pipeliner) error {
		e.list(ctx, p, revision)
		return nil
	})
	if err != nil {
		return fmt.Errorf("list rule set %s in %s: %w", revision, e.supersededKey(), err)
	}
	return nil
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

// list adds a revision to the list of superseded ones.
func (e *Exchange) list(ctx context.Context, p redis.Pipeliner, revision string) []redis.Cmder {
	return []redis.Cmder{
		p.RPush(ctx, e.supersededKey(), revision), p.LTrim(ctx, e.supersededKey(), -maxSuperseded, -1), p.PExpire(ctx, e.supersededKey(), supersededFor),
	}
}

// shardsOf returns the hashes of the shards of a revision. It returns no hashes if the manifest is missing or cannot be decoded.
func (e *Exchange) shardsOf(ctx context.Context, revision string) ([]string, error) {
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

// stored is what Redis has of a Set.
type stored struct {
	current     string    // the revision that the pointer names
	hasManifest bool      // without expiry
	lacking     []string  // hashes of shards that are missing or expire
	verified    time.Time // when Redis had all other shards
}

const noExpiry = -1 // of PTTL; -2 means "no such key"

// find reads which revision the pointer names, and which parts of the Set exist without expiry. Of an edited Set, it looks only for the shards that this
// Exchange has not published before, unless Redis has another Set than this Exchange has published last.
func (e *Exchange) find(ctx context.Context, set *rules.Encoded) (stored, error) {
	var pointer *redis.StringCmd
	var manifest *redis.DurationCmd
	known := e.published.Load()
	hashes, rest := known.split(set, e.verifyInterval)
	var shards []*redis.DurationCmd
	_, _ = e.client.Redis().Pipelined(ctx, func(p redis.Pipeliner) error { // its error is that of the first command, which can be redis.Nil
		pointer = p.Get(ctx, e.currentKey())
		manifest = p.PTTL(ctx, e.setKey(set.Revision))
		shards = e.expiries(ctx, p, hashes)
		return nil
	})
	if len(rest) > 0 && pointer.Val() != known.revision {
		_, _ = e.client.Redis().Pipelined(ctx, func(p redis.Pipeliner) error {
			shards = append(shards, e.expiries(ctx, p, rest)...)
			return nil
		})
		hashes, rest = append(hashes, rest...), nil
	}
	if err := pointer.Err(); err != nil && !errors.Is(err, redis.Nil) {
		e.stored.Store(nil) // Redis can come back with other data
		return stored{}, fmt.Errorf("read %s: %w", e.currentKey(), err)
	}
	if err := manifest.Err(); err != nil {
		return stored{}, fmt.Errorf("read the expiry of %s: %w", e.setKey(set.Revision), err)
	}
	found := stored{current: pointer.Val(), hasManifest: manifest.Val() == noExpiry, verified: time.Now()}
	if len(rest) > 0 {
		found.verified = known.verified
	}
	for i, hash := range hashes {
		if err := shards[i].Err(); err != nil {
			return stored{}, fmt.Errorf("read the expiry of %s: %w", e.shardKey(hash), err)
		}
		if shards[i].Val() != noExpiry {
			found.lacking = append(found.lacking, hash)
		}
	}
	switch {
	case known == nil:
	case known.revision != found.current:
		e.published.Store(nil) // another Exchange has published, and has perhaps not completed it
	case len(rest) == 0 && len(found.lacking) == 0:
		e.published.Store(&published{known.revision, known.shards, time.Now()})
	}
	return found, nil
}

func (e *Exchange) expiries(ctx context.Context, p redis.Pipeliner, hashes []string) []*redis.DurationCmd {
	shards := make([]*redis.DurationCmd, len(hashes))
	for i, hash := range hashes {
		shards[i] = p.PTTL(ctx, e.shardKey(hash))
	}
	return shards
}

// published is what an Exchange has published last.
type published struct {
	revision string
	shards   map[string][]byte
	verified time.Time // when Redis had all of them
}

// verifyInterval is how often an Exchange verifies that Redis has all shards of the active Set. An eviction can remove each of them.
const verifyInterval = 5 * time.Second

// split returns the hashes of the shards to look for in Redis, and those that it should have. p can be nil.
func (p *published) split(set *rules.Encoded, interval time.Duration) (ask, rest []string) {
	isDue := p == nil || p.revision == set.Revision && time.Since(p.verified) >= interval
	for _, hash := range slices.Sorted(maps.Keys(set.Shards)) {
		isKnown := false
		if p != nil {
			_, isKnown = p.shards[hash]
		}
		if isDue || !isKnown {
			ask = append(ask, hash)
		} else {
			rest = append(rest, hash)
		}
	}
	return ask, rest
}

// Leave lets the active Set and the pointer expire, because the limiter moved to another Redis. Until then, replicas that
// still read this one find the Set. Publish undoes Leave.
func (e *Exchange) Leave(ctx context.Context) error {
	e.published.Store(nil)
	e.stored.Store(nil)
	revision, err := e.Current(ctx)
	if err != nil || revision == "" {
		return err
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
	superseded, errList := rdb.LRange(ctx, e.supersededKey(), 0, -1).Result()
	if errList != nil {
		errList = fmt.Errorf("read %s: %w", e.supersededKey(), errList)
	}
	if err := rdb.Del(ctx, e.currentKey()).Err(); err != nil { // first: the pointer must never name a missing Set
		return errors.Join(errList, fmt.Errorf("remove %s: %w", e.currentKey(), err))
	}
	shards, errShards := e.shardsOfAll(ctx, append(superseded, revision))
	errList = errors.Join(errList, errShards)
	_, err = rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for hash := range shards {
			p.Del(ctx, e.shardKey(hash))
		}
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
