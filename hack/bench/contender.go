package main

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/weir-dev/weir/limiter"
)

// Names of contenders that others are compared with.
const (
	zsetGoRedis = "zset/go-redis"
	zsetRueidis = "zset/rueidis"
	redisRate   = "redis_rate"
	floorSet    = "floor/SET"
	threeOfWeir = "weir/3-policies"
	weirPrefix  = "weir/"
)

// decide asks about one request of the i-th key, and says whether it may pass.
type decide func(ctx context.Context, i int) (allowed bool, err error)

// contender is one way to limit rates.
type contender struct {
	name string
	open func(c *clients, w workload) (decide, error)
	// batch is how many decisions a call of decide makes: 1, but for the floor.
	batch int
}

// contenders are all, in the order of the table.
func contenders() []contender {
	var all []contender
	for _, algorithm := range algorithms() {
		all = append(all, contender{name: weirPrefix + string(algorithm), open: onePolicy(algorithm), batch: 1})
	}
	return append(all,
		contender{name: threeOfWeir, open: threePolicies, batch: 1},
		contender{name: zsetGoRedis, open: zsetThroughGoRedis, batch: 1},
		contender{name: zsetRueidis, open: zsetThroughRueidis, batch: 1},
		contender{name: "zset/autopipeline", open: zsetThroughAutoPipeline, batch: 1},
		contender{name: "hash/go-redis", open: hashThroughGoRedis, batch: 1},
		contender{name: redisRate, open: allowOfRedisRate, batch: 1},
		contender{name: floorSet, open: pipelinedSet, batch: floorBatch},
	)
}

func algorithms() []limiter.Algorithm {
	return []limiter.Algorithm{
		limiter.FixedWindow, limiter.SlidingWindowLog, limiter.SlidingWindowCounter, limiter.TokenBucket, limiter.LeakyBucket,
	}
}

// chosen are the contenders whose name only matches.
func chosen(all []contender, only *regexp.Regexp) []contender {
	var chosen []contender
	for _, c := range all {
		if only.MatchString(c.name) {
			chosen = append(chosen, c)
		}
	}
	return chosen
}

// workload is what is asked of every contender alike.
type workload struct {
	limit  int64
	window time.Duration
	keys   int
	prefix string // of the names of its keys
}

// names of keys, all as long, in one string: a million strings would keep the garbage collector busy.
type names struct {
	all   string
	width int
}

func (n names) at(i int) string { return n.all[i*n.width : (i+1)*n.width] }

// names are those of all keys, as Weir names them under limit.
func (w workload) names(axis string, limit limiter.Limit) names {
	space := limiter.NewKeySpace(w.prefix, axis, "shop/per-minute", limit)
	name := func(i int) string { return space.Key(fmt.Sprintf("tenant-%07d", i), "") }
	all, width := strings.Builder{}, len(name(0))
	all.Grow(w.keys * width)
	for i := range w.keys {
		all.WriteString(name(i))
	}
	return names{all: all.String(), width: width}
}

// foreignNames are the names of the keys of who is not Weir: as long as Weir's.
func (w workload) foreignNames() (names, error) {
	limit, err := limiter.NewLimit(limiter.SlidingWindowLog, w.limit, w.window)
	if err != nil {
		return names{}, err
	}
	return w.names("Tenant", limit), nil
}
