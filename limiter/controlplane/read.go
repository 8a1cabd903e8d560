package controlplane

import (
	"context"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/limiter/rules"
)

// Current returns the active revision, "" if no Set was ever published, or if the pointer was overwritten.
func (e *Exchange) Current(ctx context.Context) (string, error) {
	revision, err := pointed(e.readPointer(ctx, e.client.Redis()))
	if err != nil {
		return "", fmt.Errorf("read %s: %w", e.currentKey(), err)
	}
	return revision, nil
}

// readPointer reads as much of the pointer as shows whether it is a revision.
func (e *Exchange) readPointer(ctx context.Context, rdb redis.Cmdable) *redis.StringCmd {
	return beginning(ctx, rdb, e.currentKey(), maxRevision+1)
}

// beginning reads at most so many bytes of a string, "" if it does not exist. Other programs can write to Redis, and a value can have 512 MiB:
// everything here that reads values from Redis reads no more of them than can be valid.
func beginning(ctx context.Context, rdb redis.Cmdable, key string, most int) *redis.StringCmd {
	return rdb.GetRange(ctx, key, 0, int64(most)-1)
}

// pointed returns the revision in the reply for the pointer, "" if it is missing, or if another program has written something else: Publish replaces it.
func pointed(pointer *redis.StringCmd) (revision string, err error) {
	revision, err = pointer.Result()
	if isWrongType(err) || err == nil && !isRevision(revision) {
		return "", nil
	}
	return revision, err
}

// maxRevision is the length of "sha256:" and a hash in hexadecimal digits.
const maxRevision = 71

// isRevision reports whether text can be a revision. It becomes a part of keys and messages.
func isRevision(text string) bool {
	return strings.HasPrefix(text, "sha256:") && len(text) <= maxRevision
}

// Load returns the manifest of a revision, or its whole Set in a format without shards. It does not verify that data is that revision; the caller does.
// found is false if the key does not exist or is empty. The data of a key that is no string is empty: it is damaged. If the data is more than a Set can
// have, Load returns only its beginning.
func (e *Exchange) Load(ctx context.Context, revision string) (data []byte, found bool, err error) {
	data, found, err = e.loadManifest(ctx, revision)
	if err != nil || len(data) < maxManifest || !beginsWhole(data, revision) {
		return data, found, err
	}
	data, err = beginning(ctx, e.client.Redis(), e.setKey(revision), maxWhole).Bytes()
	return e.loaded(revision, data, err)
}

// loadManifest is Load for a manifest. Of a whole Set, it returns only the beginning.
func (e *Exchange) loadManifest(ctx context.Context, revision string) (data []byte, found bool, err error) {
	data, err = beginning(ctx, e.client.Redis(), e.setKey(revision), maxManifest).Bytes()
	return e.loaded(revision, data, err)
}

func (e *Exchange) loaded(revision string, data []byte, err error) ([]byte, bool, error) {
	switch {
	case isWrongType(err):
		return nil, true, nil
	case err != nil:
		return nil, false, fmt.Errorf("read rule set %s: %w", revision, err)
	default:
		return data, len(data) > 0, nil
	}
}

// isWrongType reports whether err is the reply for a key that is no string. Another program has written it, and to read it again does not help. Only a
// reader that treats the data as damaged makes the operator write it again.
func isWrongType(err error) bool { return err != nil && strings.HasPrefix(err.Error(), "WRONGTYPE") }

// Shards returns the encoded shards by their hashes, as far as Redis has them. A key that is empty, or no string, is missing. Of a value that is larger
// than the shard can be, Shards returns only the beginning.
func (e *Exchange) Shards(ctx context.Context, parts []rules.Part) (map[string][]byte, error) {
	if len(parts) == 0 {
		return map[string][]byte{}, nil
	}
	replies := make([]*redis.StringCmd, len(parts))
	_, _ = e.client.Redis().Pipelined(ctx, func(p redis.Pipeliner) error { // its error is that of the first command
		for i, part := range parts {
			replies[i] = beginning(ctx, p, e.shardKey(part.Hash), maxPacked(part.Size))
		}
		return nil
	})
	shards := make(map[string][]byte, len(parts))
	for i, part := range parts {
		data, err := replies[i].Bytes()
		switch {
		case err == nil && len(data) > 0:
			shards[part.Hash] = data
		case err != nil && !isWrongType(err):
			return nil, fmt.Errorf("read %s: %w", e.shardKey(part.Hash), err)
		}
	}
	return shards, nil
}

// Archive returns the Set of a revision with its shards, for [rules.Decode], which verifies it: data is only the manifest if that cannot be decoded, or
// if a shard is missing.
func (e *Exchange) Archive(ctx context.Context, revision string) (data []byte, found bool, err error) {
	data, found, err = e.Load(ctx, revision)
	if err != nil || !found {
		return nil, false, err
	}
	m, err := rules.DecodeManifest(data)
	if err != nil {
		return data, true, nil //nolint:nilerr // Decode returns it
	}
	shards, err := e.Shards(ctx, m.Lacking(nil))
	if err != nil {
		return nil, false, err
	}
	if archive, err := rules.Archive(data, shards); err == nil {
		data = archive
	}
	return data, true, nil
}
