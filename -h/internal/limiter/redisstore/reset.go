package redisstore

import (
	"context"
	_ "embed"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/weir-dev/weir/go/internal/limiter"
	"github.com/weir-dev/weir/go/internal/limiter/redisclient"
	"github.com/weir-dev/weir/go/internal/limiter/redisstore/lua"
)

// markLifetime is how long Redis remembers that a reset was made. A process that was without Redis for longer makes it again.
const markLifetime = 7 * 24 * time.Hour

//go:embed reset_once.lua
var resetOnceLua string

// resetsInFlight bounds the counters that are reset with an id at the same time.
const resetsInFlight = 128

// Reset implements limiter.Store.
func (s *Store) Reset(ctx context.Context, keys []string, id string) error {
	if id == "" {
		return s.reset(ctx, keys)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(resetsInFlight)
	for _, key := range keys {
		group.Go(func() error { return s.resetOnce(ctx, key, id, true) })
	}
	return group.Wait()
}

func (s *Store) reset(ctx context.Context, keys []string) error {
	ctx, cancel := s.withTimeout(ctx)
	defer cancel()
	pipe := s.client.Redis().Pipeline()
	for _, key := range keys { // one command per key: on a cluster they are in different slots
		if block, field, isCompact := limiter.CompactKey(key); isCompact {
			pipe.HDel(ctx, block, string(field[:]))
			pipe.HDel(ctx, lua.OddBlock(block), string(field[:])) // of a SlidingWindowCounter
		} else {
			pipe.Unlink(ctx, key)
		}
		if s.invalidations != "" {
			pipe.Publish(ctx, s.invalidations, s.resetMessage(key))
		}
	}
	_, err := pipe.Exec(ctx)
	s.client.RefreshTopology(ctx, err)
	if err != nil {
		return fmt.Errorf("reset %d counters: %w", len(keys), redisclient.WithKind(err))
	}
	return nil
}

// ResetOnce resets the counter at key after an outage, unless this or another process has done so with the same id. The message about it lets all
// processes forget their known denials. They do not drop what they have spent locally: they have reset that themselves, and may have spent units
// since.
func (s *Store) ResetOnce(ctx context.Context, key, id string) error {
	return s.resetOnce(ctx, key, id, false)
}

// resetOnce is ResetOnce. If drop is true, processes also drop what they have spent locally.
func (s *Store) resetOnce(ctx context.Context, key, id string, drop bool) error {
	message := key
	if drop {
		message = s.resetMessage(key)
	}
	ctx, cancel := s.withTimeout(ctx)
	defer cancel()
	const mark = ":reset:" // in the slot of the counter; no key of a counter ends like this
	keys, args := []string{key + mark + id, key}, []any{int64(markLifetime / time.Second), s.invalidations, message}
	if block, field, isCompact := limiter.CompactKey(key); isCompact {
		keys = []string{fmt.Sprintf("%s%s%s:%x", block, mark, id, field[:]), block, lua.OddBlock(block)}
		args = append(args, string(field[:]))
	}
	script := redisclient.NewScript("reset_once", resetOnceLua)
	if err := redisclient.RunAs(ctx, s.client, redis.NewCmd, script, keys, args).Err(); err != nil {
		return fmt.Errorf("reset a counter: %w", redisclient.WithKind(err))
	}
	return nil
}
