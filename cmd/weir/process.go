package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sync/errgroup"

	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/redisclient"
	"github.com/weir-dev/weir/limiter/redisstore"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/server"
)

// process is what answers requests, however its rules and counters come about.
type process struct {
	log       *slog.Logger
	keyPrefix string
	drain     time.Duration
	registry  *prometheus.Registry
	engine    *engine.Engine
	endpoints endpoints
	check     net.Listener
	grpc      net.Listener // nil: none
	ops       net.Listener
	throttle  net.Listener // nil: none
}

// newProcess returns a process that listens already and serves nothing yet.
func newProcess(
	ctx context.Context, counts *counters, keyPrefix string, f socketFlags, log *slog.Logger,
) (*process, error) {
	if f.drain < 0 {
		return nil, usageError(fmt.Errorf("--drain %v is less than nothing", f.drain))
	}
	endpoints, err := f.endpoints()
	if err != nil {
		return nil, usageError(err)
	}
	sockets, err := f.listeners(ctx)
	if err != nil {
		return nil, err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return &process{
		log: log, keyPrefix: keyPrefix, drain: f.drain, registry: registry, endpoints: endpoints,
		check: endpoints.balanced(sockets[0]), grpc: sockets[1], ops: sockets[2], throttle: sockets[3],
		engine: engine.New(counts.store, counts.source, engine.NewMetrics(registry), counts.options...),
	}, nil
}

// followNotices is the task of forgetting denials that refunds and resets, here or elsewhere, have made wrong.
func (p *process) followNotices(client *redisclient.Client) func(context.Context) error {
	return endless(func(ctx context.Context) {
		forget := func(key string) { p.engine.Forget(key) }
		redisstore.FollowInvalidations(ctx, client, redisstore.InvalidationChannel(p.keyPrefix), forget, p.engine.ForgetAll)
	})
}

// apply puts a Set in force. It is a source.Apply.
func (p *process) apply(set rules.Set, revision string) error {
	index, err := rules.NewIndex(set, revision, p.keyPrefix)
	if err != nil {
		return err
	}
	p.engine.Swap(index)
	return nil
}

// revision is what is in force, empty before the first Set.
func (p *process) revision() string {
	if index := p.engine.Index(); index != nil {
		return index.Revision()
	}
	return ""
}

// run serves until ctx is done or a task fails, and then drains. The tasks go on until the last request is answered.
func (p *process) run(ctx context.Context, from server.RuleSource, tasks ...func(context.Context) error) error {
	sockets, stopSockets := context.WithCancel(ctx)
	defer stopSockets()
	work, stopWork := context.WithCancel(context.WithoutCancel(ctx))
	defer stopWork()
	var group errgroup.Group
	for _, task := range tasks {
		group.Go(func() error {
			defer stopSockets() // a limiter whose rules stand still must not go on as if nothing were
			return task(work)
		})
	}
	readiness, metrics := server.NewReadiness(p.engine, from), server.NewMetrics(p.registry)
	http := &server.Server{
		Check:         p.endpoints.http(p, metrics),
		Ops:           server.NewOpsHandler(p.registry, readiness),
		CheckListener: p.check,
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
		p.log.Info("API servers are answered", "throttle", p.throttle.Addr())
		serving.Go(func() error { return apiServers.Run(failed, p.throttle) })
	}
	err := serving.Wait()
	stopWork()
	return errors.Join(err, group.Wait())
}

// endless makes a task of work that ends with its context only.
func endless(work func(context.Context)) func(context.Context) error {
	return func(ctx context.Context) error {
		work(ctx)
		return nil
	}
}

// localURL is where an HTTP listener is reached from its own machine.
func localURL(listener net.Listener) string { return "http://" + localAddress(listener) }

// localAddress is the host:port at which a listener is reached from its own machine.
func localAddress(listener net.Listener) string {
	address := listener.Addr().String()
	if host, port, err := net.SplitHostPort(address); err == nil && net.ParseIP(host).IsUnspecified() {
		return net.JoinHostPort("127.0.0.1", port)
	}
	return address
}
