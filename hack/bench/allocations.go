package main

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"strings"

	"github.com/redis/go-redis/v9"
)

// allocation is what one decision allocates in the client process.
type allocation struct{ objects, bytes float64 }

// bare is go-redis with a script that does nothing. It has as many arguments and as many integers in its reply as the script of
// Weir for one policy: its allocations are those of go-redis itself.
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

// allocated returns the contenders whose allocations are measured: those of Weir, and those that Weir is compared with.
func allocated(contenders []contender) []contender {
	selected := []contender{{name: bare, open: bareEvalSha, batch: 1}}
	for _, c := range contenders {
		if strings.HasPrefix(c.name, weirPrefix) || c.name == zsetGoRedis || c.name == redisRate {
			selected = append(selected, c)
		}
	}
	return selected
}

// countedDecisions is the number of decisions whose allocations are counted.
const countedDecisions = 20_000

// allocations returns the allocations of a decision with one caller, by contender: of counted decisions after some others.
func allocations(ctx context.Context, c *clients, contenders []contender, w workload, counted int) (map[string]allocation, error) {
	warmUp := counted / 20
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
			objects: float64(after.Mallocs-before.Mallocs) / float64(counted),
			bytes:   float64(after.TotalAlloc-before.TotalAlloc) / float64(counted),
		}
	}
	return result, nil
}

// beyondGoRedis returns how many more objects a decision of a contender allocates than go-redis itself; NaN if not measured.
func beyondGoRedis(all map[string]allocation, name string) float64 {
	its, measured := all[name]
	own, known := all[bare]
	if !measured || !known {
		return math.NaN()
	}
	return its.objects - own.objects
}
