// Package bypasses has the bypasses that the processes of a limiter share, in Redis.
package bypasses

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/limiter/bypass"
	"github.com/weir-dev/weir/limiter/redisclient"
)

const (
	// removedAfter is how long an expired bypass stays in Redis: the clocks of processes can differ.
	removedAfter = 5 * time.Minute
	// maxAhead is how far the clock of the process that has written a bypass can be ahead. Beyond it, the entry is removed.
	maxAhead = time.Hour
	// maxText is the size of the largest entry, in bytes. JSON writes a byte of a text as up to six.
	maxText = 64 << 10
	// maxRemoved is the number of entries that one command removes.
	maxRemoved = 1000
	// maxFields and maxBytes bound the hash, because another program can have filled it: each process reads all of it, twice a second. An entry
	// usually has 500 bytes.
	maxFields = 20_000
	maxBytes  = 16 << 20
)

//go:embed bypasses.lua
var bypassesLua string

// Store is a bypass.Store: a hash of the processes that share counters. Its key is in the range of their counters, so that they need no
// further permission.
type Store struct {
	client *redisclient.Client
	key    string
}

// New returns the bypasses of the processes whose keys of counters have this prefix.
func New(client *redisclient.Client, prefix string) *Store {
	return &Store{client, prefix + "throttle:bypasses"}
}

// stored is an entry in Redis. A limiter that does not know blocks must not let an identifier pass that is blocked: the entry of a block has no
// policy, so that such a limiter removes it as invalid. The others write it again.
type stored struct {
	bypass.Bypass

	Blocked string `json:"blockedPolicy,omitempty"`
}

func encode(entry bypass.Bypass) ([]byte, error) {
	s := stored{Bypass: entry}
	if entry.Blocks {
		s.Blocked, s.Policy = s.Policy, ""
	}
	return json.Marshal(&s)
}

func decode(text string) (bypass.Bypass, error) {
	var s stored
	err := json.Unmarshal([]byte(text), &s)
	if s.Blocks {
		s.Policy = s.Blocked
	}
	return s.Bypass, err
}

// Load implements bypass.Store. It removes entries that have expired, and everything that is not an entry: each process would read it until
// the hash expires, and each Save prolongs that. It deletes a hash that is too large, and returns an error: each process then writes its entries
// again.
func (b *Store) Load(ctx context.Context) ([]bypass.Bypass, error) {
	script := redisclient.NewScript("bypasses", bypassesLua)
	fields, err := redisclient.RunAs(ctx, b.client, redis.NewStringSliceCmd, script, []string{b.key}, []any{maxFields, maxBytes}).Result()
	if err != nil {
		return nil, fmt.Errorf("read the bypasses in %s: %w", b.key, err)
	}
	if len(fields) == 1 && fields[0] != "" {
		return nil, fmt.Errorf("%s had %s, which is too much to read, and was deleted: find the program that writes to it. Bypasses are written again",
			b.key, fields[0])
	}
	var entries []bypass.Bypass
	var removed []string
	for i := 0; i+1 < len(fields); i += 2 {
		name, text := fields[i], fields[i+1]
		entry, err := decode(text[:min(len(text), maxText)])
		if len(text) > maxText || err != nil || entry.Name != name ||
			entry.Validate(time.Now().Add(maxAhead)) != nil || time.Since(entry.ExpiresAt) > removedAfter {
			removed = append(removed, name)
			continue
		}
		entries = append(entries, entry)
	}
	for part := range slices.Chunk(removed, maxRemoved) {
		if err := b.client.Redis().HDel(ctx, b.key, part...).Err(); err != nil {
			return nil, fmt.Errorf("remove expired and invalid bypasses in %s: %w", b.key, redisclient.WithKind(err))
		}
	}
	return entries, nil
}

// Save implements bypass.Store.
func (b *Store) Save(ctx context.Context, entries []bypass.Bypass) error {
	fields := make([]any, 0, 2*len(entries))
	for i := range entries {
		text, err := encode(entries[i])
		if err != nil {
			return fmt.Errorf("encode bypass %s: %w", entries[i].Name, err)
		}
		fields = append(fields, entries[i].Name, text)
	}
	pipe := b.client.Redis().Pipeline()
	pipe.HSet(ctx, b.key, fields...)
	pipe.PExpire(ctx, b.key, bypass.MaxDuration+removedAfter) // no entry lasts longer
	_, err := pipe.Exec(ctx)
	b.client.RefreshTopology(ctx, err)
	if err != nil {
		return fmt.Errorf("write %d bypasses to %s: %w", len(entries), b.key, redisclient.WithKind(err))
	}
	return nil
}
