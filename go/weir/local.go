package weir

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"golang.org/x/time/rate"

	"github.com/weir-dev/weir/go/weir/directory"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/policyfile"
	"github.com/weir-dev/weir/internal/policyfile/structure"
	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/denials"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/failover"
	"github.com/weir-dev/weir/limiter/lease"
	"github.com/weir-dev/weir/limiter/local"
	"github.com/weir-dev/weir/limiter/memstore"
	"github.com/weir-dev/weir/limiter/redisclient"
	"github.com/weir-dev/weir/limiter/redisclient/redischeck"
	"github.com/weir-dev/weir/limiter/redisstore"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/matching"
	"github.com/weir-dev/weir/limiter/source"
	"github.com/weir-dev/weir/limiter/store"
)

// maxCachedDenials is the size of the denial cache. An entry takes a few hundred bytes.
const maxCachedDenials = 100_000

// NewMemory returns a Limiter that counts in this process.
func NewMemory(p *Policies, list ...Option) (*Limiter, error) {
	o, err := newOptions(list)
	if err != nil {
		return nil, err
	}
	key, err := o.key()
	if err != nil {
		return nil, err
	}
	if key == nil {
		key = limiter.RandomHashKey() // as short-lived as the counters
	}
	l := newLimiter(&o)
	return l.decide(p, &o, key, memstore.New(time.Now, memstore.MaxBytes(o.memory)), store.Layers{}, engine.SourceMemory)
}

// NewRedis returns a Limiter that counts in Redis, for all instances of the program together. The URL is that of one server, of Sentinels or of a
// Redis Cluster, as for `weir serve --redis`, for example "redis://user:password@redis:6379/0", "rediss://…" with TLS, or
// "redis://sentinel-1:26379?addr=sentinel-2:26379&master=mymaster". NewRedis does not wait for Redis: while it is unavailable, also at the start, each instance
// decides as the policies set with onStoreFailure, by default on its share of the limits.
func NewRedis(url string, p *Policies, list ...Option) (*Limiter, error) {
	return newRedis(p, list, func(timeout time.Duration) (*redisclient.Client, error) {
		client, err := redisclient.Open(url, timeout)
		if err != nil {
			return nil, fmt.Errorf("the URL of Redis: %w", err)
		}
		return client, nil
	})
}

// NewRedisClient is [NewRedis] for the Redis that a *redis.Client or a *redis.ClusterClient of the program uses. It takes the options of the client:
// address, credentials, TLS, dialer, size of the pool. The Limiter has connections of its own, with the option Timeout and without retries: a command
// that go-redis repeats because its reply was lost would count a request several times. Hooks of the client are not taken over, and Close does not
// close it. Clients that ask Sentinels are an error; [NewRedis] has URLs for them.
func NewRedisClient(client redis.UniversalClient, p *Policies, list ...Option) (*Limiter, error) {
	return newRedis(p, list, func(timeout time.Duration) (*redisclient.Client, error) { return redisclient.From(client, timeout) })
}

func newRedis(p *Policies, list []Option, connect func(timeout time.Duration) (*redisclient.Client, error)) (*Limiter, error) {
	o, err := newOptions(list)
	if err != nil {
		return nil, err
	}
	key, err := o.key()
	if err != nil {
		return nil, err
	}
	client, err := connect(o.timeout)
	if err != nil {
		return nil, err
	}
	l := newLimiter(&o)
	l.timeout = o.timeout
	l.onClose(client.Close)
	counters := redisstore.NewStore(client, o.timeout,
		redisstore.WithRefundFailures(sometimes(o.log, "refunds in Redis failed: units of denied requests stay spent until their windows end")),
		redisstore.WithCorruptCounters(sometimesKeys(o.log, "counters in Redis have values that Weir did not write, and start over")),
		redisstore.WithCountersAhead(sometimesKeys(o.log, "the clock of Redis has stepped back: counters that it counted ahead of now start over")),
		redisstore.WithInvalidations(redisstore.InvalidationChannel(o.prefix)))
	counts := local.New(o.memory, monotonicClock())
	counts.Share(local.Peers{Replicas: int64(o.replicas), Rank: int64(o.replicas) - 1})
	leases := lease.New(counters, time.Now)
	leases.Share(int64(o.replicas))
	layers := store.Layers{
		Leases: leases, Denials: denials.NewCache(maxCachedDenials, time.Now), Failover: failover.New(counters, counts, monotonicClock(), o.log),
	}
	counters.EnableBreaker(l.work, layers.Failover)
	l.run(leases.Run)
	l.run(redischeck.NewConnection(client, redischeck.NamesOf(o.prefix, o.prefix), o.log).Run)
	return l.decide(p, &o, key, counters, layers, engine.SourceRedis, func(chain *store.Chain) {
		l.run(func(ctx context.Context) {
			redisstore.FollowInvalidations(ctx, client, redisstore.InvalidationChannel(o.prefix),
				func(key string) { chain.WasRefunded(key) }, func(key string) { chain.WasReset(key) }, chain.MayHaveChanged)
		})
	})
}

// decide makes l decide by p on counters. It closes l if it fails.
func (l *Limiter) decide(
	p *Policies, o *options, key *limiter.HashKey, counters limiter.Store, layers store.Layers, from engine.Source, follow ...func(*store.Chain),
) (*Limiter, error) {
	err := l.start(p, o, key, counters, layers, from, follow)
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

func (l *Limiter) start(
	p *Policies, o *options, key *limiter.HashKey, counters limiter.Store, layers store.Layers, from engine.Source, follow []func(*store.Chain),
) error {
	if p == nil {
		return errors.New("the policies are nil: make them with LoadDir, Parse or Define")
	}
	metrics := prometheus.NewRegistry()
	var calls prometheus.Registerer = metrics
	if o.registry == nil {
		calls = nil // calls that no one sees measured are faster
	}
	chain := store.New(counters, layers, calls)
	e := engine.New(chain, from, engine.NewMetrics(metrics), engine.WithLayers(chain), engine.WithSpans())
	l.decider = e
	install := func(set rules.Set, revision string) error {
		index, err := matching.Update(e.Index(), rules.Split(set), revision, o.prefix, matching.WithHashKey(key))
		if err != nil {
			return err
		}
		e.Swap(index)
		return nil
	}
	identity := compile.DefaultIdentity().WithHashKey(key)
	compiled, err := p.compile(identity)
	if err != nil {
		return err
	}
	if compiled.Policies == 0 && !p.watch {
		return fmt.Errorf("there is no policy in %s, so no request would be limited; with Watch, policies can be added later", cmp.Or(p.dir, "the Policies"))
	}
	for _, warning := range compiled.Warnings() {
		o.log.Warn("a policy is valid, but perhaps not what is meant", "problem", warning.String())
	}
	if p.watch && o.domain == "" && len(compiled.Rules.Rules) == 0 {
		return fmt.Errorf("no policy in %s is enforced yet: set the option Domain to the namespace of the policies that will be", p.dir)
	}
	domain, err := domainOf(&compiled.Rules, o.domain)
	if err != nil {
		return err
	}
	if err := install(compiled.Rules, ""); err != nil {
		return err
	}
	if err := l.register(metrics, o.registry); err != nil {
		return err
	}
	l.open(o, domain)
	if p.watch {
		if err := l.watch(p, identity, compiled.Rules, func(set rules.Set, revision string) error {
			if _, err := domainOf(&set, domain); err != nil { // as at the start
				return err
			}
			return install(set, revision)
		}); err != nil {
			return err
		}
	}
	for _, f := range follow {
		f(chain)
	}
	return nil
}

// watch follows the changes of the directory of p, whose rules are active. The directory can have changed since then: an invalid edit keeps them.
func (l *Limiter) watch(p *Policies, identity compile.Identity, active rules.Set, install source.Apply) error {
	schema := func() (policyfile.Schema, error) { return structure.Schema{}, nil }
	dir := &directory.Directory{Path: p.dir, Identity: identity, Schema: schema, Install: install, Log: l.log, Active: active}
	files := source.NewFiles(p.dir, dir.Load, dir.Apply, l.log)
	if err := files.Reload(); err != nil {
		return err
	}
	l.run(func(ctx context.Context) {
		if err := files.Run(ctx); err != nil && ctx.Err() == nil {
			l.log.Error("changes of policies are no longer followed", "dir", p.dir, "error", err)
		}
	})
	return nil
}

// logInterval is the least time between two lines about the same fault of Redis: an outage causes many.
const logInterval = 10 * time.Second

func sometimes(log *slog.Logger, message string) func(error) {
	often := &rate.Sometimes{First: 1, Interval: logInterval}
	return func(err error) { often.Do(func() { log.Warn(message, "error", err) }) }
}

func sometimesKeys(log *slog.Logger, message string) func([]string) {
	often := &rate.Sometimes{First: 1, Interval: logInterval}
	return func(keys []string) { often.Do(func() { log.Warn(message, "key", keys[0], "counters", len(keys)) }) }
}

// monotonicClock returns a clock that starts at the system time and ignores later changes of the system time.
func monotonicClock() func() time.Time {
	began := time.Now()
	return func() time.Time { return began.Add(time.Since(began)) }
}
