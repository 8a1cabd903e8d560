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
	memoryWindow = 24 * time.Hour // so that nothing expires
	loggedKeys   = 200
	loggedUnits  = 1000 // limit, and units admitted per key
	fillers      = 16
	pollInterval = 20 * time.Millisecond
)

// memory has bytes in Redis.
type memory struct {
	key  map[string]float64 // per key with one admitted unit, by contender
	unit map[string]float64 // per admitted unit of a key with many, by contender
}

func measureMemory(ctx context.Context, contenders []contender, progress func(string, ...any)) (memory, error) {
	logs := []string{weirPrefix + string(limiter.SlidingWindowLog), zsetGoRedis}
	keyed := []string{zsetGoRedis, "hash/go-redis", redisRate}
	for _, algorithm := range algorithms() {
		keyed = append(keyed, weirPrefix+string(algorithm))
	}
	measured := memory{key: map[string]float64{}, unit: map[string]float64{}}
	for _, c := range contenders {
		var err error
		if slices.Contains(keyed, c.name) {
			progress("memory of %s", c.name)
			w := workload{limit: 100, window: memoryWindow, keys: memoryKeys, prefix: "weir:"}
			measured.key[c.name], err = bytesOf(ctx, c, w, 1)
		}
		if err == nil && slices.Contains(logs, c.name) {
			progress("memory of units of %s", c.name)
			w := workload{limit: loggedUnits, window: memoryWindow, keys: loggedKeys, prefix: "weir:"}
			measured.unit[c.name], err = bytesOf(ctx, c, w, loggedUnits)
		}
		if err != nil {
			return memory{}, fmt.Errorf("memory of %s: %w", c.name, err)
		}
	}
	return measured, nil
}

// bytesOf returns the memory per hit in Redis when every key has that number of hits.
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

// loadScript loads the script of the contender, and leaves no keys in Redis.
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
		return errors.Join(group.Wait(), finishResize(ctx, clients, w.keys))
	})
}

// hit sends requests for every fillers-th key from first on.
func hit(ctx context.Context, decide decide, first, keys, hits int) error {
	for i := first; i < keys; i += fillers {
		for range hits {
			allowed, err := decide(ctx, i)
			if err != nil {
				return err
			}
			if !allowed {
				return fmt.Errorf("a request for key %d was denied, want it admitted", i)
			}
		}
	}
	return nil
}

// finishResize lets Redis finish resizing its tables, which it does step by step with each command. It checks the number of
// keys.
func finishResize(ctx context.Context, clients *clients, keys int) error {
	for range 2 * keys / baselineBatch {
		pipe := clients.goRedis.Pipeline()
		for range baselineBatch {
			pipe.RandomKey(ctx)
		}
		if _, err := pipe.Exec(ctx); err != nil {
			return fmt.Errorf("RANDOMKEY: %w", err)
		}
	}
	size, err := clients.goRedis.DBSize(ctx).Result()
	if err == nil && size != int64(keys) {
		err = fmt.Errorf("redis has %d keys, want %d", size, keys)
	}
	return err
}

// usedMemory returns the memory that Redis uses when all connections are closed except the one of this call.
func usedMemory(ctx context.Context, server *fixture.RedisProcess) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	tick := time.NewTicker(pollInterval)
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
			return 0, fmt.Errorf("%s connections are still open: %w", fields["connected_clients"], ctx.Err())
		case <-tick.C:
		}
	}
}
