package main

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/weir-dev/weir/cmd/internal/cli"
	"github.com/weir-dev/weir/cmd/weir/monitor"
	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/admin"
	"github.com/weir-dev/weir/limiter/bound"
	"github.com/weir-dev/weir/limiter/denials"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/failover"
	"github.com/weir-dev/weir/limiter/lease"
	"github.com/weir-dev/weir/limiter/local"
	"github.com/weir-dev/weir/limiter/memstore"
	"github.com/weir-dev/weir/limiter/redisclient"
	"github.com/weir-dev/weir/limiter/redisclient/redischeck"
	"github.com/weir-dev/weir/limiter/redisstore"
	"github.com/weir-dev/weir/limiter/store"
)

// maxCachedDenials is the size of the denial cache of a process. An entry takes a few hundred bytes.
const maxCachedDenials = 100_000

const (
	// localCountersDivisor is the part of --memory for the counters in this process: a quarter. The garbage before a collection can take
	// as much again, and the rest of the process needs memory too.
	localCountersDivisor = 4
	// minMemory leaves room for the process itself, in bytes.
	minMemory = 128 << 20
	// binaryMemory is the resident part of the executable file in bytes, which the Go memory limit does not count.
	binaryMemory = 60 << 20
	// memoryLimitPercent of --memory, less binaryMemory, is the Go memory limit.
	memoryLimitPercent = 90
)

// counterFlags configure the counters in Redis and the local counters of local mode.
type counterFlags struct {
	timeout  time.Duration
	prefix   string
	memory   string
	replicas int
	group    string
	// The maximum of the live counters of a policy; 0 if there is no maximum.
	maxIdentifiers int64
	overflow       string
	hashKey        string
}

func (f *counterFlags) add(flags *pflag.FlagSet) {
	flags.DurationVar(&f.timeout, "redis-timeout", 50*time.Millisecond, "maximum time that a decision waits for Redis")
	flags.StringVar(&f.prefix, "prefix", "weir:", cli.RedisPrefixHelp)
	flags.StringVar(&f.memory, "memory", "256Mi",
		"memory limit of the process; a quarter is reserved for the local counters that are used while Redis is unavailable.\n"+
			"In weir serve without --redis, a quarter is for all counters; if it is full, the counters that are used least start over")
	flags.IntVar(&f.replicas, "replicas", 1,
		"initial number of replicas, among which limits are shared while Redis is unavailable; replaced by the number that Redis reports")
	flags.StringVar(&f.group, "counter-group", "",
		"group whose processes share counters in one Redis; empty shares them among the replicas of a limiter,\n"+
			"and among the processes of weir serve")
	flags.Int64Var(&f.maxIdentifiers, "max-identifiers", 0,
		"number of live counters of a policy from which on new identifiers get no counter of their own; 0 sets no number.\n"+
			"Each process estimates the counters that its requests use. While Redis is nearly full, new identifiers of the policies with\n"+
			"the most counters get no counter in any case")
	flags.StringVar(&f.hashKey, "hash-key", "",
		"file with the key with which API keys and other credentials are hashed, 32 to 4096 bytes, for example the output of\n"+
			"openssl rand -hex 32; read at start. Processes that share counters must have the same key. Required for policies that count by\n"+
			"API key, by credentials in a header, parameter, cookie, claim, descriptor or expression, or have storage: Compact;\n"+
			"weir serve without --redis uses a random key if it is empty")
	flags.StringVar(&f.overflow, "identifier-overflow", overflowShared,
		"what happens to new identifiers that get no counter of their own, because of --max-identifiers or the memory of Redis:\n"+
			"Shared lets them share one counter, Deny denies them")
}

// The values of --identifier-overflow.
const (
	overflowShared = "Shared"
	overflowDeny   = "Deny"
)

// counterPrefix returns the prefix of the keys of counters. Processes with the same prefix share counters. limiter is the name of the
// limiter, "" in weir serve.
func (f *counterFlags) counterPrefix(limiter string) (string, error) {
	if err := cli.ValidatePrefix(f.prefix); err != nil {
		return "", err
	}
	if f.group != "" {
		if problems := validation.IsDNS1123Label(f.group); len(problems) > 0 {
			return "", fmt.Errorf("--counter-group %q is invalid: %s", f.group, strings.Join(problems, "; "))
		}
		return f.prefix + "@" + f.group + ":", nil
	}
	if limiter != "" {
		return f.prefix + limiter + ":", nil
	}
	return f.prefix, nil
}

// bound returns the bound of identifiers that the flags set.
func (f *counterFlags) bound() (*bound.Counters, error) {
	switch {
	case f.maxIdentifiers < 0:
		return nil, fmt.Errorf("--max-identifiers %d is invalid: must not be negative", f.maxIdentifiers)
	case f.overflow != overflowShared && f.overflow != overflowDeny:
		return nil, fmt.Errorf("--identifier-overflow %q is invalid: must be %s or %s", f.overflow, overflowShared, overflowDeny)
	default:
		return bound.New(bound.Identifiers{Max: f.maxIdentifiers, Deny: f.overflow == overflowDeny}, time.Now), nil
	}
}

// counters are the counters of a process.
type counters struct {
	store   limiter.Store
	layers  store.Layers // above the store
	scanner admin.Scanner
	source  engine.Source
	metrics []prometheus.Collector
	memory  int64 // of the process, in bytes
	// hashKey hashes API keys; nil without --hash-key if the counters are in Redis.
	hashKey *limiter.HashKey
	// The fields below are nil if the counters are in this process.
	client     *redisclient.Client
	redis      *redisstore.Store
	local      *local.Counters
	connection *redischeck.Connection // of the client; nil until the process has asked Redis
}

// memoryCounters returns counters in this process.
func memoryCounters(f counterFlags) (*counters, error) {
	memory, err := f.limitMemory()
	if err != nil {
		return nil, err
	}
	identifiers, err := f.bound()
	if err != nil {
		return nil, err
	}
	hashKey, err := cli.ReadHashKey(f.hashKey)
	if err != nil {
		return nil, err
	}
	if hashKey == nil {
		hashKey = limiter.RandomHashKey() // as short-lived as the counters
	}
	counts := memstore.New(time.Now, memstore.MaxBytes(int(memory/localCountersDivisor)))
	gauge := func(name, help string, value func(memstore.Stats) float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return value(counts.Stats()) })
	}
	return &counters{
		store: counts, layers: store.Layers{Bound: identifiers}, scanner: counts, source: engine.SourceMemory, memory: memory, hashKey: hashKey,
		metrics: []prometheus.Collector{
			gauge("weir_memory_counters", "Counters of weir serve without Redis.", func(s memstore.Stats) float64 { return float64(s.Counters) }),
			gauge("weir_memory_bytes", "Approximate memory of the counters of weir serve without Redis, in bytes.",
				func(s memstore.Stats) float64 { return float64(s.Bytes) }),
			prometheus.NewCounterFunc(prometheus.CounterOpts{
				Name: "weir_memory_evicted_total",
				Help: "Counters of weir serve without Redis that were evicted before their windows ended, because --memory was full. They start over.",
			}, func() float64 { return float64(counts.Stats().Evicted) }),
		},
	}, nil
}

// redisCounters returns counters in the Redis of client. It logs failed refunds at most every ten seconds: an outage causes many.
// quarantined returns a metric of the counters whose calls fail although their node answers.
func quarantined(store *redisstore.Store) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "weir_redis_quarantined_counters",
		Help: "Counters that are decided locally because their calls to Redis fail although the node answers others.",
	}, func() float64 { return float64(store.Quarantined()) })
}

// countersAhead returns a metric of the counters that a wrong clock of Redis has counted, and what counts and logs them.
func countersAhead(log *slog.Logger) (ahead prometheus.Counter, found func(keys []string)) {
	ahead = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "weir_redis_counters_ahead_total",
		Help: "Times that a counter in Redis started over because the clock of Redis had been ahead when it counted.",
	})
	sometimes := &rate.Sometimes{First: 1, Interval: 10 * time.Second}
	return ahead, func(keys []string) {
		ahead.Add(float64(len(keys)))
		sometimes.Do(func() {
			log.Warn("the clock of Redis has stepped back: counters that it counted ahead of now start over; check the clocks of the Redis servers",
				"key", keys[0], "counters", len(keys))
		})
	}
}

func redisCounters(client *redisclient.Client, f counterFlags, log *slog.Logger) (*counters, error) {
	if f.replicas < 1 {
		return nil, fmt.Errorf("--replicas %d is invalid: must be at least 1", f.replicas)
	}
	identifiers, err := f.bound()
	if err != nil {
		return nil, err
	}
	memory, err := f.limitMemory()
	if err != nil {
		return nil, err
	}
	hashKey, err := cli.ReadHashKey(f.hashKey)
	if err != nil {
		return nil, err
	}
	sometimes := &rate.Sometimes{First: 1, Interval: 10 * time.Second}
	sometimesCorrupt := &rate.Sometimes{First: 1, Interval: 10 * time.Second}
	refundFailed := func(err error) {
		sometimes.Do(func() {
			log.Warn("refunds failed: units of denied requests stay spent in other Redis slots until their windows end", "error", err)
		})
	}
	corrupt := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "weir_redis_corrupt_counters_total",
		Help: "Times that a counter in Redis had a value that Weir did not write. Such a counter starts over with the next unit that it counts.",
	})
	foundCorrupt := func(keys []string) {
		corrupt.Add(float64(len(keys)))
		sometimesCorrupt.Do(func() {
			log.Warn("counters in Redis have values that Weir did not write, and start over; check what else writes to this Redis",
				"key", keys[0], "counters", len(keys))
		})
	}
	ahead, foundAhead := countersAhead(log)
	meter := monitor.NewStoreMeter()
	redis := redisstore.NewStore(client, f.timeout,
		redisstore.WithRefundFailures(refundFailed), redisstore.WithCorruptCounters(foundCorrupt),
		redisstore.WithCountersAhead(foundAhead), redisstore.WithMeter(meter),
		redisstore.WithInvalidations(redisstore.InvalidationChannel(f.prefix)))
	counts := local.New(int(memory/localCountersDivisor), monotonicClock())
	counts.Share(local.Peers{Replicas: int64(f.replicas), Rank: int64(f.replicas) - 1})
	leases := lease.New(redis, time.Now)
	leases.Share(int64(f.replicas))
	return &counters{
		store: redis, scanner: redis, source: engine.SourceRedis, memory: memory, client: client, redis: redis, local: counts, hashKey: hashKey,
		layers: store.Layers{
			Leases: leases, Denials: denials.NewCache(maxCachedDenials, time.Now), Bound: identifiers,
			Failover: failover.New(redis, counts, monotonicClock(), log),
		},
		metrics: append([]prometheus.Collector{corrupt, ahead, quarantined(redis)}, meter.Collectors()...),
	}, nil
}

// limitMemory sets the Go memory limit, unless the environment does, and returns --memory in bytes.
func (f *counterFlags) limitMemory() (int64, error) {
	memory, err := f.memoryBytes()
	if err == nil && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memory/100*memoryLimitPercent - binaryMemory)
	}
	return memory, err
}

// memoryBytes parses and validates --memory.
func (f *counterFlags) memoryBytes() (int64, error) {
	quantity, err := resource.ParseQuantity(f.memory)
	if err != nil {
		return 0, fmt.Errorf("--memory %q is invalid: %w", f.memory, err)
	}
	bytes := quantity.Value()
	if bytes < minMemory || bytes > math.MaxInt64/100 {
		return 0, fmt.Errorf("--memory %s is invalid: must be between 128Mi and the available memory", f.memory)
	}
	return bytes, nil
}

// guard makes the process decide locally while Redis is unavailable, until the stop function is called.
func (c *counters) guard(ctx context.Context) (stop func()) {
	guarded, stop := context.WithCancel(context.WithoutCancel(ctx))
	if c.redis != nil {
		c.redis.EnableBreaker(guarded, c.layers.Failover)
	}
	return stop
}

// tasks returns the background tasks of the counters.
func (c *counters) tasks(p *process) []func(context.Context) error {
	if c.client == nil {
		return nil
	}
	return []func(context.Context) error{
		monitor.NewInspector(c.client, p.registry, p.log).Run, p.watchMemory(c.client), p.followNotices(c.client), asTask(c.layers.Leases.Run),
		asTask(c.connection.Run),
	}
}

func (c *counters) close() error {
	if c.client == nil {
		return nil
	}
	return c.client.Close()
}

// monotonicClock returns a clock that starts at the system time and ignores later changes of the system time.
func monotonicClock() func() time.Time {
	began := time.Now()
	return func() time.Time { return began.Add(time.Since(began)) }
}
