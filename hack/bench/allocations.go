package main

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"strings"

	"github.com/redis/go-redis/v9"
)

// allocation is what one decision allocates in this process.
type allocation struct{ objects, bytes float64 }

// bare is go-redis with a script that does nothing: the same number of arguments that Weir sends for a policy, and as
// many integers in reply. What it allocates is go-redis's own.
const (
	bare       = "bare EVALSHA"
	bareScript = "return {1790000000000000, 0, 99, 60000000, 0}"
)

func bareEvalSha(c *clients, w workload) (decide, error) {
	names, err := w.foreignNames()
	script := redis.NewScript(bareScript)
	return func(ctx context.Context, i int) (bool, error) {
		args := []any{"", "0", "spend", 1, "algorithm", w.limit, w.window.Microseconds(), w.limit, 1, "enforce"}
		reply, err := script.Run(ctx, c.goRedis, []string{names.at(i)}, args...).Int64Slice()
		return len(reply) > 0, err
	}, err
}

// allocated measures those whose names say that they are Weir's or are compared with.
func allocated(contenders []contender) []contender {
	of := []contender{{name: bare, open: bareEvalSha, batch: 1}}
	for _, c := range contenders {
		if strings.HasPrefix(c.name, weirPrefix) || c.name == zsetGoRedis || c.name == redisRate {
			of = append(of, c)
		}
	}
	return of
}

// allocations of a decision by one caller, by contender.
func allocations(ctx context.Context, c *clients, contenders []contender, w workload) (map[string]allocation, error) {
	const warmUp, counted = 1000, 20_000
	w.keys = warmUp + counted
	result := map[string]allocation{}
	for _, each := range allocated(contenders) {
		w.prefix = "allocations:" + each.name + ":"
		decide, err := each.open(c, w)
		if err != nil {
			return nil, fmt.Errorf("allocations of %s: %w", each.name, err)
		}
		var before, after runtime.MemStats
		for i := range w.keys {
			if i == warmUp {
				runtime.ReadMemStats(&before)
			}
			if _, err := decide(ctx, i); err != nil {
				return nil, fmt.Errorf("allocations of %s: %w", each.name, err)
			}
		}
		runtime.ReadMemStats(&after)
		result[each.name] = allocation{
			objects: float64(after.Mallocs-before.Mallocs) / counted, bytes: float64(after.TotalAlloc-before.TotalAlloc) / counted,
		}
	}
	return result, nil
}

// beyondGoRedis is how many more objects name's decision allocates than go-redis by itself; NaN when not measured.
func beyondGoRedis(of map[string]allocation, name string) float64 {
	its, measured := of[name]
	own, known := of[bare]
	if !measured || !known {
		return math.NaN()
	}
	return its.objects - own.objects
}
