package redisstore

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

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
)

// Bypasses is a bypass.Store: a hash of the processes that share counters. Its key is in the range of their counters, so that they need no
// further permission.
type Bypasses struct {
	client *redisclient.Client
	key    string
}

// NewBypasses returns the bypasses of the processes whose keys of counters have this prefix.
func NewBypasses(client *redisclient.Client, prefix string) *Bypasses {
	return &Bypasses{client, prefix + "throttle:bypasses"}
}

// Load implements bypass.Store. It removes entries that have expired, and everything that is not an entry: each process would read it until
// the hash expires, and each Save prolongs that.
func (b *Bypasses) Load(ctx context.Context) ([]bypass.Bypass, error) {
	fields, err := b.client.Redis().HGetAll(ctx, b.key).Result()
	b.client.RefreshTopology(ctx, err)
	if err != nil {
		return nil, fmt.Errorf("read the bypasses in %s: %w", b.key, redisclient.WithKind(err))
	}
	var entries []bypass.Bypass
	var removed []string
	for name, text := range fields {
		var entry bypass.Bypass
		if len(text) > maxText || json.Unmarshal([]byte(text), &entry) != nil || entry.Name != name ||
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
func (b *Bypasses) Save(ctx context.Context, entries []bypass.Bypass) error {
	fields := make([]any, 0, 2*len(entries))
	for i := range entries {
		text, err := json.Marshal(&entries[i])
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
