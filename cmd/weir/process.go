package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sync/errgroup"

	"github.com/weir-dev/weir/cmd/internal/cli"
	"github.com/weir-dev/weir/cmd/weir/monitor"
	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/admin"
	"github.com/weir-dev/weir/limiter/bound"
	"github.com/weir-dev/weir/limiter/bypass"
	"github.com/weir-dev/weir/limiter/decisionlog"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/overload"
	"github.com/weir-dev/weir/limiter/redisclient"
	"github.com/weir-dev/weir/limiter/redisstore"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/matching"
	"github.com/weir-dev/weir/limiter/server"
	"github.com/weir-dev/weir/limiter/store"
	"github.com/weir-dev/weir/limiter/tracing/otlp"
)

// process is the part that `weir limiter` and `weir serve` share: the engine and its endpoints.
type process struct {
	log       *slog.Logger
	keyPrefix string
	// counterPrefix is the prefix of the keys of counters.
	counterPrefix string
	hashKey       *limiter.HashKey
	drain         time.Duration
	registry      *prometheus.Registry
	engine        *engine.Engine
	chain         *store.Chain // of the engine
	bound         *bound.Counters
	gate          *overload.Gate
	endpoints     endpoints
	check         net.Listener
	grpc          net.Listener // nil if disabled
	ops           net.Listener
	throttle      net.Listener // nil if disabled
	heap          *monitor.HeapFloor
	totals        *admin.Totals
	service       *rateLimitService // nil except in weir ratelimit
	decisions     *decisionlog.Log
	bypasses      *bypass.List
	bypassStore   bypass.Store    // nil if other processes do not share the counters
	published     admin.RuleStore // nil except in weir limiter
	traces        *otlp.Exporter
	redis         admin.RedisChecker // nil without Redis
}

// newProcess returns a process with open listeners. It does not serve yet. limiterName is the name of the limiter, "" in weir serve.
func newProcess(
	ctx context.Context, counts *counters, keys counterFlags, limiterName string, f socketFlags, log *slog.Logger,
) (*process, error) {
	if f.drain < 0 {
		return nil, cli.UsageError(fmt.Errorf("--drain %v is invalid: must not be negative", f.drain))
	}
	counterPrefix, err := keys.counterPrefix(limiterName)
	if err != nil {
		return nil, cli.UsageError(err)
	}
	endpoints, err := f.endpoints()
	if err != nil {
		return nil, cli.UsageError(err)
	}
	sockets, err := f.listeners(ctx)
	if err != nil {
		return nil, err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	registry.MustRegister(counts.metrics...)
	decisions, err := f.decisionLog.Open(counts.hashKey, registry)
	if err != nil {
		return nil, cli.UsageError(err)
	}
	bypasses := newBypasses(registry)
	chain := store.New(counts.store, counts.layers, registry)
	traces, err := f.tracing.Open(ctx, registry, log)
	if err != nil {
		return nil, cli.UsageError(err)
	}
	p := &process{
		log: log, keyPrefix: keys.prefix, counterPrefix: counterPrefix, hashKey: counts.hashKey, drain: f.drain, registry: registry, endpoints: endpoints,
		check: endpoints.withProxyProtocol(sockets[0]), grpc: sockets[1], ops: sockets[2], throttle: sockets[3],
		gate:  overload.NewGate(runtime.GOMAXPROCS(0), log),
		chain: chain,
		engine: engine.New(chain, counts.source, engine.NewMetrics(registry),
			engine.WithLayers(chain), engine.CountIdentifiers(), engine.ObserveDecisions(decisions), engine.WithBypasses(bypasses)),
		bound: counts.layers.Bound,
		heap:  monitor.NewHeapFloor(counts.memory), decisions: decisions, bypasses: bypasses, traces: traces,
	}
	p.totals = admin.NewTotals(p.engine, registry)
	return p, nil
}

// followNotices returns a task that removes denials from the denial cache after a refund or reset by any replica.
func (p *process) followNotices(client *redisclient.Client) func(context.Context) error {
	return asTask(func(ctx context.Context) {
		refunded := func(key string) { p.chain.WasRefunded(key) }
		reset := func(key string) { p.chain.WasReset(key) }
		redisstore.FollowInvalidations(ctx, client, redisstore.InvalidationChannel(p.keyPrefix), refunded, reset, p.chain.MayHaveChanged)
	})
}

// applySet is apply for a set that is not in shards. It is a source.Apply.
func (p *process) applySet(set rules.Set, revision string) error {
	return p.apply(rules.Split(set), revision)
}

// apply makes set the active rule set. It is a source.ApplyShards.
func (p *process) apply(set *rules.Sharded, revision string) error {
	index, err := matching.Update(p.engine.Index(), set, revision, p.counterPrefix, matching.WithHashKey(p.hashKey))
	if err != nil {
		return err
	}
	p.engine.Swap(index)
	return nil
}

// revision returns the active revision, empty before the first rule set.
func (p *process) revision() string {
	if index := p.engine.Index(); index != nil {
		return index.Revision()
	}
	return ""
}

// run serves until ctx is done or a task fails, and then drains. The tasks end after the last request.
func (p *process) run(ctx context.Context, source server.RuleSource, tasks ...func(context.Context) error) error {
	sockets, stopSockets := context.WithCancel(ctx)
	defer stopSockets()
	work, stopWork := context.WithCancel(context.WithoutCancel(ctx))
	defer stopWork()
	var group errgroup.Group
	for _, task := range append(tasks, p.heap.Run, asTask(p.totals.Run), asTask(p.decisions.Run), asTask(p.exchangeBypasses), asTask(p.traces.Run)) {
		group.Go(func() error {
			defer stopSockets() // a limiter must not keep serving if its rules no longer change
			return task(work)
		})
	}
	group.Go(func() error {
		p.gate.Run(work, overload.SchedulingDelay())
		return nil
	})
	readiness, metrics := server.NewReadiness(p.engine, source), server.NewMetrics(p.registry)
	check := p.endpoints.http(p, metrics)
	if p.service != nil {
		check = p.service.healthHandler(ctx.Done())
	}
	http := &server.Server{
		Check:         check,
		Ops:           server.NewOpsHandler(p.registry, readiness, p.opsOptions()...),
		CheckListener: p.check,
		TLS:           p.endpoints.httpTLS,
		OpsListener:   p.ops,
		Readiness:     readiness,
		Drain:         p.drain,
		Log:           p.log,
	}
	serving, failed := errgroup.WithContext(sockets)
	serving.Go(func() error { return http.Run(failed) })
	if p.grpc != nil {
		envoys := p.endpoints.grpc(p, metrics, readiness)
		serving.Go(func() error { return envoys.Run(failed, p.grpc) })
	}
	if p.throttle != nil {
		apiServers := p.endpoints.throttle.server(p, metrics)
		p.log.Info("serving the admission webhook for the API server", "throttle", p.throttle.Addr())
		serving.Go(func() error { return apiServers.Run(failed, p.throttle) })
	}
	err := serving.Wait()
	stopWork()
	return errors.Join(err, group.Wait())
}

// opsOptions returns those of the handler for monitoring. The service that weir ratelimit replaces has counters whose names have no suffix.
func (p *process) opsOptions() []server.OpsOption {
	if p.traces.Tracer == nil || p.service != nil {
		return nil
	}
	return []server.OpsOption{server.WithExemplars}
}

// asTask returns a task for a function that ends only with its context.
func asTask(work func(context.Context)) func(context.Context) error {
	return func(ctx context.Context) error {
		work(ctx)
		return nil
	}
}

// checkURL returns the URL of --listen on its own machine.
func (p *process) checkURL() string {
	if p.endpoints.httpTLS != nil {
		return "https://" + localAddress(p.check)
	}
	return localURL(p.check)
}

// localURL returns the URL of an HTTP listener on its own machine.
func localURL(listener net.Listener) string { return "http://" + localAddress(listener) }

// localAddress returns the host:port of a listener on its own machine.
func localAddress(listener net.Listener) string {
	address := listener.Addr().String()
	if _, port, err := net.SplitHostPort(address); err == nil && isUnspecified(listener) {
		return net.JoinHostPort("127.0.0.1", port)
	}
	return address
}

// isUnspecified reports whether a listener accepts connections on all interfaces.
func isUnspecified(listener net.Listener) bool {
	host, _, err := net.SplitHostPort(listener.Addr().String())
	return err == nil && net.ParseIP(host).IsUnspecified()
}

// watchMemory returns a task that lets the engine know how full Redis is, so that no flood of identifiers fills it.
func (p *process) watchMemory(client *redisclient.Client) func(context.Context) error {
	return asTask(monitor.NewMemoryWatch(client, p.bound, p.log).Run)
}
