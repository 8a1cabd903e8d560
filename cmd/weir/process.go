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
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"

	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/redisstore"
	"github.com/weir-dev/weir/limiter/reply"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/server"
)

// socketFlags are where a process that answers requests listens.
type socketFlags struct {
	listen string
	ops    string
	drain  time.Duration
	style  string
}

func (f *socketFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.listen, "listen", ":8080", "address for checks: POST /v1/check")
	flags.StringVar(&f.ops, "ops-listen", ":9090", "address for /metrics, /healthz and /readyz")
	flags.DurationVar(&f.drain, "drain", 0,
		"time to go on answering, not ready any more, after SIGTERM; behind a Service or load balancer 5s")
	flags.StringVar(&f.style, "headers", string(reply.Draft11),
		"how clients are told of their limits: Draft11 (RateLimit, RateLimit-Policy), Draft03 or GitHub (X-RateLimit-*), None")
}

// process is what answers requests, however its rules and counters come about.
type process struct {
	log       *slog.Logger
	keyPrefix string
	drain     time.Duration
	style     reply.Style
	registry  *prometheus.Registry
	engine    *engine.Engine
	check     net.Listener
	ops       net.Listener
}

// newProcess returns a process that listens already and serves nothing yet.
func newProcess(
	ctx context.Context, counts *counters, keyPrefix string, f socketFlags, log *slog.Logger,
) (*process, error) {
	if f.drain < 0 {
		return nil, usageError(fmt.Errorf("--drain %v is less than nothing", f.drain))
	}
	style, err := reply.ParseStyle(f.style)
	if err != nil {
		return nil, usageError(fmt.Errorf("--headers: %w", err))
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	check, err := listen(ctx, f.listen, "--listen")
	if err != nil {
		return nil, err
	}
	ops, err := listen(ctx, f.ops, "--ops-listen")
	if err != nil {
		return nil, errors.Join(err, check.Close())
	}
	return &process{
		log: log, keyPrefix: keyPrefix, drain: f.drain, style: style, registry: registry, check: check, ops: ops,
		engine: engine.New(counts.store, counts.source, engine.NewMetrics(registry), counts.options...),
	}, nil
}

// followNotices is the task of forgetting denials that refunds and resets, here or elsewhere, have made wrong.
func (p *process) followNotices(client *redisstore.Client) func(context.Context) error {
	return endless(func(ctx context.Context) {
		forget := func(key string) { p.engine.Forget(key) }
		client.Forgotten(ctx, redisstore.NoticeChannel(p.keyPrefix), forget, p.engine.ForgetAll)
	})
}

func listen(ctx context.Context, address, flag string) (net.Listener, error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%w; choose another address with %s", err, flag)
	}
	return listener, nil
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
func (p *process) run(ctx context.Context, from server.Rules, tasks ...func(context.Context) error) error {
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
	readiness := server.NewReadiness(p.engine, from)
	s := &server.Server{
		Check:         server.NewHandler(p.engine, p.style, server.NewMetrics(p.registry), p.log),
		Ops:           server.NewOpsHandler(p.registry, readiness),
		CheckListener: p.check,
		OpsListener:   p.ops,
		Readiness:     readiness,
		Drain:         p.drain,
		Log:           p.log,
	}
	err := s.Run(sockets)
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

// localURL is where a listener is reached from its own machine.
func localURL(listener net.Listener) string {
	address := listener.Addr().String()
	if host, port, err := net.SplitHostPort(address); err == nil && net.ParseIP(host).IsUnspecified() {
		address = net.JoinHostPort("127.0.0.1", port)
	}
	return "http://" + address
}
