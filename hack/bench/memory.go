package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/test/fixture"
)

const (
	memoryKeys   = 100_000
	memoryWindow = 24 * time.Hour // nothing expires meanwhile
	loggedKeys   = 200
	loggedUnits  = 1000 // the limit, and what is admitted of every key
	fillers      = 16
	poll         = 20 * time.Millisecond
)

// memory is bytes in Redis.
type memory struct {
	key  map[string]float64 // a key that was hit once, by contender
	unit map[string]float64 // a unit that was admitted, of many, by contender
}

func measureMemory(ctx context.Context, contenders []contender, say func(string, ...any)) (memory, error) {
	logs := []string{weirPrefix + string(limiter.SlidingWindowLog), zsetGoRedis}
	keeping := []string{zsetGoRedis, "hash/go-redis", redisRate}
	for _, algorithm := range algorithms() {
		keeping = append(keeping, weirPrefix+string(algorithm))
	}
	measured := memory{key: map[string]float64{}, unit: map[string]float64{}}
	for _, c := range contenders {
		var err error
		if slices.Contains(keeping, c.name) {
			say("memory of %s", c.name)
			w := workload{limit: 100, window: memoryWindow, keys: memoryKeys, prefix: "weir:"}
			measured.key[c.name], err = bytesOf(ctx, c, w, 1)
		}
		if err == nil && slices.Contains(logs, c.name) {
			say("memory of units of %s", c.name)
			w := workload{limit: loggedUnits, window: memoryWindow, keys: loggedKeys, prefix: "weir:"}
			measured.unit[c.name], err = bytesOf(ctx, c, w, loggedUnits)
		}
		if err != nil {
			return memory{}, fmt.Errorf("memory of %s: %w", c.name, err)
		}
	}
	return measured, nil
}

// bytesOf is by how much a hit makes an empty Redis larger, when every key is hit so often.
func bytesOf(ctx context.Context, c contender, w workload, hits int) (bytes float64, err error) {
	server, err := fixture.StartRedis(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	if err := loadScript(ctx, server, c, w); err != nil {
		return 0, err
	}
	before, err := usedMemory(ctx, server)
	if err != nil {
		return 0, err
	}
	if err := fill(ctx, server, c, w, hits); err != nil {
		return 0, err
	}
	after, err := usedMemory(ctx, server)
	return (after - before) / float64(w.keys*hits), err
}

// loadScript leaves nothing in Redis but the contender's script.
func loadScript(ctx context.Context, server *fixture.RedisProcess, c contender, w workload) error {
	w.keys = 1
	return connected(server, func(clients *clients) error {
		decide, err := c.open(clients, w)
		if err != nil {
			return err
		}
		_, errDecide := decide(ctx, 0)
		return errors.Join(errDecide, clients.goRedis.FlushAll(ctx).Err())
	})
}

func connected(server *fixture.RedisProcess, do func(*clients) error) error {
	clients, err := connect(server.URL())
	if err != nil {
		return err
	}
	return errors.Join(do(clients), clients.close())
}

func fill(ctx context.Context, server *fixture.RedisProcess, c contender, w workload, hits int) error {
	return connected(server, func(clients *clients) error {
		decide, err := c.open(clients, w)
		if err != nil {
			return err
		}
		group, groupCtx := errgroup.WithContext(ctx)
		for filler := range fillers {
			group.Go(func() error { return hit(groupCtx, decide, filler, w.keys, hits) })
		}
		return errors.Join(group.Wait(), resized(ctx, clients, w.keys))
	})
}

// hit hits every key from first on that is a filler's.
func hit(ctx context.Context, decide decide, first, keys, hits int) error {
	for i := first; i < keys; i += fillers {
		for range hits {
			allowed, err := decide(ctx, i)
			if err != nil {
				return err
			}
			if !allowed {
				return fmt.Errorf("a request of key %d was denied, which was to be kept", i)
			}
		}
	}
	return nil
}

// resized lets Redis finish resizing its tables, which it does a step a command, and counts the keys.
func resized(ctx context.Context, clients *clients, keys int) error {
	for range 2 * keys / floorBatch {
		pipe := clients.goRedis.Pipeline()
		for range floorBatch {
			pipe.RandomKey(ctx)
		}
		if _, err := pipe.Exec(ctx); err != nil {
			return fmt.Errorf("RANDOMKEY: %w", err)
		}
	}
	size, err := clients.goRedis.DBSize(ctx).Result()
	if err == nil && size != int64(keys) {
		err = fmt.Errorf("redis holds %d keys, not %d", size, keys)
	}
	return err
}

// usedMemory is what Redis uses once all connections are gone but the one that asks.
func usedMemory(ctx context.Context, server *fixture.RedisProcess) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for {
		text, err := server.Do(ctx, "INFO")
		if err != nil {
			return 0, err
		}
		fields := parseInfo(fmt.Sprint(text))
		if fields["connected_clients"] == "1" {
			return fields.number("used_memory")
		}
		select {
		case <-ctx.Done():
			return 0, fmt.Errorf("connections remain: %s: %w", fields["connected_clients"], ctx.Err())
		case <-tick.C:
		}
	}
}
