package controlplane

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/limiter/redisclient"
	"github.com/weir-dev/weir/limiter/rules"
)

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
	data, _, err := e.loadManifest(ctx, revision) // the sequence is at the beginning
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
// pointer always finds the Set. The shards expire until the pointer is written, so that a crash leaves no shard for ever. The list has the revision before
// its manifest is written, so that the next Publish, also of another Exchange, lets expire what a crash has left: see complete.
// Leader election excludes two operators at the same time except for moments; see BeforeReplacing. They can leave the active Set with the
// expiry of a superseded one, or the older Set active. The next Publish of the remaining operator repairs either.
func (e *Exchange) Publish(ctx context.Context, set rules.Encoded, rewrite bool) (changed bool, err error) {
	found, err := e.find(ctx, &set)
	if err != nil {
		return false, err
	}
	if rewrite {
		found = stored{current: found.current, lacking: slices.Sorted(maps.Keys(set.Shards)), verified: time.Now()}
	}
	if found.isKept && found.current == set.Revision && len(found.lacking) == 0 {
		_, sequence, err := e.Active(ctx)
		if err != nil {
			return false, err
		}
		if next := sequenceOf(&set); next == 0 || sequence == next {
			return false, e.complete(ctx, &set)
		}
	}
	if found.current != "" && found.current != set.Revision && e.confirm != nil {
		if err := e.confirm(ctx); err != nil {
			return false, fmt.Errorf("replace rule set %s by %s: %w", found.current, set.Revision, err)
		}
	}
	return e.write(ctx, &set, found)
}

// sequenceOf returns the sequence of a Set, 0 without one.
func sequenceOf(set *rules.Encoded) int64 {
	sequence, _ := rules.Sequence(set.Data) // 0 after an error
	return sequence
}

// write makes a Set the active one, of which Redis has what was found.
func (e *Exchange) write(ctx context.Context, set *rules.Encoded, found stored) (changed bool, err error) {
	e.stored.Store(nil) // until the pointer is written
	known := e.published.Swap(nil)
	e.recent.add(set)
	if found.current != set.Revision {
		if err := e.writeShards(ctx, set, found.lacking, supersededFor); err != nil {
			return false, err
		}
	}
	unlisted, err := e.writeManifest(ctx, set, found.current, known != nil)
	if err != nil {
		return false, err
	}
	previous, err := e.point(ctx, set.Revision)
	if err != nil {
		return false, err
	}
	e.stored.Store(&version{set.Revision, sequenceOf(set)})
	if err := e.writeShards(ctx, set, found.lacking, 0); err != nil { // they are active now, and must not expire
		return true, err
	}
	if err := e.client.Redis().Publish(ctx, e.Channel(), set.Revision).Err(); err != nil {
		return true, fmt.Errorf("publish revision %s on channel %s: %w", set.Revision, e.Channel(), err)
	}
	if isActive, err := e.isStillActive(ctx, set, found.lacking); err != nil || !isActive {
		return true, err
	}
	if previous != "" && previous != set.Revision {
		if err := e.supersede(ctx, previous, set); err != nil {
			return true, err
		}
	}
	if unlisted != nil {
		return true, unlisted
	}
	if known == nil {
		return true, e.complete(ctx, set)
	}
	e.published.Store(&published{set.Revision, set.Shards, found.verified, known.completed})
	return true, nil
}

// point makes the pointer name a revision, and returns the one that it named before. It does not use SET with GET, which returns all of a value that
// another program has written. A revision that another operator writes between the two commands is in the list, so complete finds it.
func (e *Exchange) point(ctx context.Context, revision string) (previous string, err error) {
	var before *redis.StringCmd
	var written *redis.StatusCmd
	_, _ = e.client.Redis().Pipelined(ctx, func(p redis.Pipeliner) error { // its error is that of the first command
		before = e.readPointer(ctx, p)
		written = p.Set(ctx, e.currentKey(), revision, 0)
		return nil
	})
	if err := written.Err(); err != nil {
		return "", fmt.Errorf("set %s to %s: %w", e.currentKey(), revision, err)
	}
	previous, err = pointed(before)
	if err != nil {
		return "", fmt.Errorf("read %s: %w", e.currentKey(), err)
	}
	return previous, nil
}

// isStillActive reports whether no other operator has replaced the Set since the pointer was written. If one has, it has let these shards expire, perhaps
// before they were written without expiry, so isStillActive lets them expire again. The next Publish finds the other Set.
func (e *Exchange) isStillActive(ctx context.Context, set *rules.Encoded, hashes []string) (bool, error) {
	current, err := e.Current(ctx)
	if err != nil || current == set.Revision {
		return err == nil, err
	}
	return false, e.expire(ctx, set.Revision, hashes, supersededFor)
}

// writeManifest lists a Set, and also the previous one if it is not in the list: Redis can have lost the list. Then it writes the manifest: on a cluster,
// the node with the list can be unavailable, and a manifest that is not listed would stay for ever after a crash. The error unlisted is that of a missing
// permission for the list, which must not delay rules.
func (e *Exchange) writeManifest(ctx context.Context, set *rules.Encoded, previous string, isListed bool) (unlisted, err error) {
	length, unlisted := e.list(ctx, set.Revision)
	if unlisted == nil && previous != "" && (!isListed || length == 1) {
		_, unlisted = e.list(ctx, previous)
	}
	if unlisted != nil && redisclient.Kind(unlisted) != redisclient.KindDenied {
		return nil, unlisted
	}
	if err := e.client.Redis().Set(ctx, e.setKey(set.Revision), set.Data, 0).Err(); err != nil {
		return nil, fmt.Errorf("write rule set %s: %w", set.Revision, err)
	}
	return unlisted, nil
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

// stored is what Redis has of a Set.
type stored struct {
	current  string    // the revision that the pointer names; "" if it names no revision
	isKept   bool      // the pointer and the manifest exist, without expiry
	lacking  []string  // hashes of shards that are missing or expire
	verified time.Time // when Redis had all other shards
}

// Replies of PTTL.
const (
	noExpiry = -1
	noKey    = -2
)

// find reads which revision the pointer names, and which parts of the Set exist without expiry. Of an edited Set, it looks only for the shards that this
// Exchange has not published before, unless Redis has another Set than this Exchange has published last.
func (e *Exchange) find(ctx context.Context, set *rules.Encoded) (stored, error) {
	var pointer *redis.StringCmd
	var manifest, kept *redis.DurationCmd
	known := e.published.Load()
	hashes, rest := known.split(set, e.verifyInterval)
	var shards []*redis.DurationCmd
	_, _ = e.client.Redis().Pipelined(ctx, func(p redis.Pipeliner) error { // its error is that of the first command
		pointer = e.readPointer(ctx, p)
		kept = p.PTTL(ctx, e.currentKey())
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
	current, err := pointed(pointer)
	if err != nil {
		e.stored.Store(nil) // Redis can come back with other data
		return stored{}, fmt.Errorf("read %s: %w", e.currentKey(), err)
	}
	if err := manifest.Err(); err != nil {
		return stored{}, fmt.Errorf("read the expiry of %s: %w", e.setKey(set.Revision), err)
	}
	if err := kept.Err(); err != nil {
		return stored{}, fmt.Errorf("read the expiry of %s: %w", e.currentKey(), err)
	}
	found := stored{current: current, isKept: manifest.Val() == noExpiry && kept.Val() == noExpiry, verified: time.Now()}
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
		e.published.Store(&published{known.revision, known.shards, time.Now(), known.completed})
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
	// completed is when everything else had an expiry.
	completed time.Time
}

// verifyInterval is how often an Exchange verifies that Redis has all shards of the active Set. An eviction can remove each of them. It is shorter than the
// five seconds between two calls of Publish of an idle operator: otherwise, most second calls would verify nothing, and a lost shard would be missing for
// ten seconds.
const verifyInterval = 4 * time.Second

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
