package controlplane

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/limiter/rules"
)

// Current returns the active revision, "" if no Set was ever published, or if the pointer was overwritten.
func (e *Exchange) Current(ctx context.Context) (string, error) {
	revision, err := pointed(e.client.Redis().Get(ctx, e.currentKey()))
	if err != nil {
		return "", fmt.Errorf("read %s: %w", e.currentKey(), err)
	}
	return revision, nil
}

// pointed returns the revision in the reply for the pointer, "" if it is missing, or if another program has written something else: Publish replaces it.
func pointed(pointer *redis.StringCmd) (revision string, err error) {
	revision, err = pointer.Result()
	if errors.Is(err, redis.Nil) || isWrongType(err) || err == nil && !isRevision(revision) {
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
// The data of a key that is no string is empty: it is damaged.
func (e *Exchange) Load(ctx context.Context, revision string) (data []byte, found bool, err error) {
	data, err = e.client.Redis().Get(ctx, e.setKey(revision)).Bytes()
	if errors.Is(err, redis.Nil) {
		return nil, false, nil
	}
	if isWrongType(err) {
		return nil, true, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("read rule set %s: %w", revision, err)
	}
	return data, true, nil
}

// isWrongType reports whether err is the reply for a key that is no string. Another program has written it, and to read it again does not help. Only a
// reader that treats the data as damaged makes the operator write it again.
func isWrongType(err error) bool { return err != nil && strings.HasPrefix(err.Error(), "WRONGTYPE") }

// Shards returns the encoded shards with these hashes, as far as Redis has them. A key that is no string is missing.
func (e *Exchange) Shards(ctx context.Context, hashes []string) (map[string][]byte, error) {
	if len(hashes) == 0 {
		return map[string][]byte{}, nil
	}
	replies := make([]*redis.StringCmd, len(hashes))
	_, _ = e.client.Redis().Pipelined(ctx, func(p redis.Pipeliner) error { // its error is that of the first command, which can be redis.Nil
		for i, hash := range hashes {
			replies[i] = p.Get(ctx, e.shardKey(hash))
		}
		return nil
	})
	shards := make(map[string][]byte, len(hashes))
	for i, hash := range hashes {
		data, err := replies[i].Bytes()
		switch {
		case err == nil:
			shards[hash] = data
		case !errors.Is(err, redis.Nil) && !isWrongType(err):
			return nil, fmt.Errorf("read %s: %w", e.shardKey(hash), err)
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
	shards, err := e.Shards(ctx, slices.Collect(m.Hashes()))
	if err != nil {
		return nil, false, err
	}
	if archive, err := rules.Archive(data, shards); err == nil {
		data = archive
	}
	return data, true, nil
}
