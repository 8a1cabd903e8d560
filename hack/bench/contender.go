package main

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/weir-dev/weir/limiter"
)

// Names of contenders that the code refers to.
const (
	zsetGoRedis = "zset/go-redis"
	zsetRueidis = "zset/rueidis"
	redisRate   = "redis_rate"
	baselineSet = "baseline/SET"
	threeOfWeir = "weir/3-policies"
	weirPrefix  = "weir/"
	compact     = "/compact" // suffix of contenders with compact counters
)

// decide decides one request for key i.
type decide func(ctx context.Context, i int) (allowed bool, err error)

// contender is one implementation of rate limits in Redis.
type contender struct {
	name string
	open func(c *clients, w workload) (decide, error)
	// batch is the number of decisions of one call of decide: 1, except for the baseline.
	batch int
}

// contenders returns all contenders in the order of the tables.
func contenders() []contender {
	var all []contender
	for _, algorithm := range algorithms() {
		all = append(all, contender{name: weirPrefix + string(algorithm), open: onePolicy(algorithm, workload.names), batch: 1})
	}
	for _, algorithm := range counted() {
		all = append(all, contender{name: weirPrefix + string(algorithm) + compact, open: onePolicy(algorithm, workload.compactNames), batch: 1})
	}
	return append(all,
		contender{name: threeOfWeir, open: threePolicies, batch: 1},
		contender{name: zsetGoRedis, open: zsetThroughGoRedis, batch: 1},
		contender{name: zsetRueidis, open: zsetThroughRueidis, batch: 1},
		contender{name: "zset/autopipeline", open: zsetThroughAutoPipeline, batch: 1},
		contender{name: "hash/go-redis", open: hashThroughGoRedis, batch: 1},
		contender{name: redisRate, open: allowOfRedisRate, batch: 1},
		contender{name: baselineSet, open: pipelinedSet, batch: baselineBatch},
	)
}

func algorithms() []limiter.Algorithm {
	return []limiter.Algorithm{
		limiter.FixedWindow, limiter.SlidingWindowLog, limiter.SlidingWindowCounter, limiter.TokenBucket, limiter.LeakyBucket,
	}
}

// counted returns the algorithms that have compact counters.
func counted() []limiter.Algorithm {
	return []limiter.Algorithm{limiter.FixedWindow, limiter.SlidingWindowCounter}
}

// selectContenders returns the contenders whose names match only.
func selectContenders(all []contender, only *regexp.Regexp) []contender {
	var selected []contender
	for _, c := range all {
		if only.MatchString(c.name) {
			selected = append(selected, c)
		}
	}
	return selected
}

// workload is the same for every contender.
type workload struct {
	limit  int64
	window time.Duration
	keys   int
	prefix string // of the names of its keys
}

// names has the names of keys, which have the same length, in one string: the garbage collector would scan a million strings.
type names struct {
	all   string
	width int
}

func (n names) at(i int) string { return n.all[i*n.width : (i+1)*n.width] }

// names returns the names of all keys, as Weir builds them for limit.
func (w workload) names(axis string, limit limiter.Limit) names {
	return w.namesIn(limiter.NewKeySpace(w.prefix, axis, "shop/per-minute", limit))
}

// compactNames returns the names of all keys for compact counters.
func (w workload) compactNames(axis string, limit limiter.Limit) names {
	return w.namesIn(limiter.NewKeySpace(w.prefix, axis, "shop/per-minute", limit).Compact(new(limiter.HashKey)))
}

func (w workload) namesIn(space limiter.KeySpace) names {
	name := func(i int) string { return space.Key(fmt.Sprintf("tenant-%07d", i), "") }
	all, width := strings.Builder{}, len(name(0))
	all.Grow(w.keys * width)
	for i := range w.keys {
		all.WriteString(name(i))
	}
	return names{all: all.String(), width: width}
}

// foreignNames returns the names of keys for contenders other than Weir. They are as long as those of Weir.
func (w workload) foreignNames() (names, error) {
	limit, err := limiter.NewLimit(limiter.SlidingWindowLog, w.limit, w.window)
	if err != nil {
		return names{}, err
	}
	return w.names("Tenant", limit), nil
}
