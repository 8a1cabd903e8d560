package main

import (
	"context"
	_ "embed" // for the scripts
	"strconv"
	"sync/atomic"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
)

var (
	//go:embed zset.lua
	zsetLua string
	//go:embed hash.lua
	hashLua string
)

// baselineBatch is the number of commands that the baseline sends in one round trip.
const baselineBatch = 64

// member returns unique members of sorted sets: the time and a number.
type member struct{ last atomic.Uint64 }

func (m *member) next(now int64) string {
	return strconv.FormatInt(now, 10) + ":" + strconv.FormatUint(m.last.Add(1), 36)
}

func zsetThroughGoRedis(c *clients, w workload) (decide, error) { return zset(c.goRedis, w) }

func zsetThroughAutoPipeline(c *clients, w workload) (decide, error) { return zset(c.auto, w) }

// zset runs the sorted-set script with go-redis.
func zset(client redis.Scripter, w workload) (decide, error) {
	names, err := w.foreignNames()
	script, window, members := redis.NewScript(zsetLua), w.window.Milliseconds(), &member{}
	return func(ctx context.Context, i int) (bool, error) {
		now := time.Now().UnixMilli()
		return script.Run(ctx, client, []string{names.at(i)}, now, window, w.limit, members.next(now)).Bool()
	}, err
}

// zsetThroughRueidis runs the same script with a client that pipelines automatically.
func zsetThroughRueidis(c *clients, w workload) (decide, error) {
	names, err := w.foreignNames()
	script, members := rueidis.NewLuaScript(zsetLua), &member{}
	window, limit := strconv.FormatInt(w.window.Milliseconds(), 10), strconv.FormatInt(w.limit, 10)
	return func(ctx context.Context, i int) (bool, error) {
		now := time.Now().UnixMilli()
		args := []string{strconv.FormatInt(now, 10), window, limit, members.next(now)}
		return script.Exec(ctx, c.rueidis, []string{names.at(i)}, args).AsBool()
	}, err
}

func hashThroughGoRedis(c *clients, w workload) (decide, error) {
	names, err := w.foreignNames()
	script, window := redis.NewScript(hashLua), w.window.Milliseconds()
	return func(ctx context.Context, i int) (bool, error) {
		return script.Run(ctx, c.goRedis, []string{names.at(i)}, time.Now().UnixMilli(), window, w.limit).Bool()
	}, err
}

// allowOfRedisRate removes the length of the prefix that redis_rate adds to names.
func allowOfRedisRate(c *clients, w workload) (decide, error) {
	names, err := w.foreignNames()
	limiter := redis_rate.NewLimiter(c.goRedis)
	limit := redis_rate.Limit{Rate: int(w.limit), Burst: int(w.limit), Period: w.window}
	return func(ctx context.Context, i int) (bool, error) {
		result, err := limiter.Allow(ctx, names.at(i)[len("rate:"):], limit)
		return err == nil && result.Allowed > 0, err
	}, err
}

// pipelinedSet writes a batch of keys. This is the least that a decision on a counter in Redis can cost.
func pipelinedSet(c *clients, w workload) (decide, error) {
	const stride = 7919 // a prime, so that the keys of a batch are not neighbors
	names, err := w.foreignNames()
	window := w.window.Milliseconds()
	return func(ctx context.Context, i int) (bool, error) {
		pipe := c.goRedis.Pipeline()
		for n := range baselineBatch {
			pipe.Do(ctx, "SET", names.at((i+n*stride)%w.keys), "1", "PX", window)
		}
		_, err := pipe.Exec(ctx)
		return err == nil, err
	}, err
}
