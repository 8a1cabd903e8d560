package main

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"os"
	"runtime/debug"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/failover"
	"github.com/weir-dev/weir/limiter/local"
	"github.com/weir-dev/weir/limiter/memstore"
	"github.com/weir-dev/weir/limiter/redisclient"
	"github.com/weir-dev/weir/limiter/redisstore"
)

// knownDenials is how many denials a process remembers; each takes some hundreds of bytes.
const knownDenials = 100_000

const (
	// localPart is the part of a process's memory that the counters which stand in for Redis may take: as much again is
	// garbage before it is collected, and a process is more than its counters.
	localPart = 4
	// leastMemory leaves room for the process itself.
	leastMemory = 128 << 20
	// program is what is resident of the program's own file, of which the collector does not know.
	program = 56 << 20
	// softPart of the memory, less the program, is where the collector begins to work harder, in percent.
	softPart = 90
)

// counterFlags are about counters in Redis, and what stands in for them.
type counterFlags struct {
	timeout  time.Duration
	prefix   string
	memory   string
	replicas int
}

func (f *counterFlags) add(flags *pflag.FlagSet) {
	flags.DurationVar(&f.timeout, "redis-timeout", 50*time.Millisecond, "time a decision may wait for Redis")
	flags.StringVar(&f.prefix, "prefix", "weir:", "what every name in Redis begins with")
	flags.StringVar(&f.memory, "memory", "256Mi",
		"memory that the process is to keep within; a quarter of it is for counters that stand in for Redis while it is away.\n"+
			"Counters in the process, of weir serve without --redis, are as many as there are callers, whatever is said here")
	flags.IntVar(&f.replicas, "replicas", 1,
		"replicas to share limits with while Redis is away, until Redis has told how many there are")
}

// counters are where a process counts.
type counters struct {
	store   limiter.Store
	source  engine.Source
	options []engine.Option
	// Of counters in Redis; nil where they are in this process.
	client   *redisclient.Client
	redis    *redisstore.Store
	local    *local.Counters
	failover *failover.Store
}

// memoryCounters are counters in this process.
func memoryCounters() *counters {
	return &counters{store: memstore.New(time.Now), source: engine.SourceMemory}
}

// redisCounters are counters in client's Redis. Refunds that fail are logged, now and then: they come in crowds.
func redisCounters(client *redisclient.Client, f counterFlags, log *slog.Logger) (*counters, error) {
	memory, err := f.memoryBytes()
	if err != nil {
		return nil, err
	}
	if f.replicas < 1 {
		return nil, fmt.Errorf("--replicas %d is less than 1", f.replicas)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memory/100*softPart - program)
	}
	sometimes := &rate.Sometimes{First: 1, Interval: 10 * time.Second}
	refundFailed := func(err error) {
		sometimes.Do(func() {
			log.Warn("denied requests leave units spent in other slots until their windows end", "error", err)
		})
	}
	redis := redisstore.NewStore(client, f.timeout,
		redisstore.WithRefundFailures(refundFailed), redisstore.WithInvalidations(redisstore.InvalidationChannel(f.prefix)))
	counts := local.New(int(memory/localPart), steadyClock())
	counts.Share(local.Peers{Replicas: int64(f.replicas), Rank: int64(f.replicas) - 1})
	store := failover.New(redis, counts, time.Now, log)
	return &counters{
		store: store, source: engine.SourceRedis, client: client, redis: redis, local: counts, failover: store,
		options: []engine.Option{engine.RememberDenials(knownDenials, time.Now)},
	}, nil
}

// memoryBytes reads --memory.
func (f *counterFlags) memoryBytes() (int64, error) {
	quantity, err := resource.ParseQuantity(f.memory)
	if err != nil {
		return 0, fmt.Errorf("--memory %q: %w", f.memory, err)
	}
	bytes := quantity.Value()
	if bytes < leastMemory || bytes > math.MaxInt64/100 {
		return 0, fmt.Errorf("--memory %s is less than 128Mi, or more than there is", f.memory)
	}
	return bytes, nil
}

// guard makes the process decide while Redis is unavailable, until the stop function is called.
func (c *counters) guard(ctx context.Context) (stop func()) {
	guarded, stop := context.WithCancel(context.WithoutCancel(ctx))
	if c.redis != nil {
		c.redis.EnableBreaker(guarded, c.failover)
	}
	return stop
}

// tasks run beside the process.
func (c *counters) tasks(p *process) []func(context.Context) error {
	if c.client == nil {
		return nil
	}
	return []func(context.Context) error{newInspector(c.client, p.registry, p.log).run, p.followNotices(c.client)}
}

func (c *counters) close() error {
	if c.client == nil {
		return nil
	}
	return c.client.Close()
}

// steadyClock begins at the time of the machine and does not step with it.
func steadyClock() func() time.Time {
	began := time.Now()
	return func() time.Time { return began.Add(time.Since(began)) }
}
