package main

import (
	"context"
	"crypto/rand"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-dev/weir/limiter/controlplane"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/source"
)

// exchangeTimeout bounds what is not on the path of a request: a rule set may be megabytes.
const exchangeTimeout = 2 * time.Second

// limiterFlags are what `weir limiter` can be told.
type limiterFlags struct {
	limiter  string
	redis    string
	redisTLS redisTLSFlags
	counters counterFlags
	replica  string
	snapshot string
	sockets  socketFlags
}

func limiterCommand() *cobra.Command {
	var f limiterFlags
	cmd := &cobra.Command{
		Use:   "limiter",
		Short: "Answer requests by the policies that the operator published",
		Long: "Takes the compiled policies of one limiter from Redis, follows their changes, and answers POST /v1/check with\n" +
			"counters in Redis. Run as many replicas as you like: they share the counters.\n\n" +
			"It starts without Redis and without policies, and is not ready until it has policies, from Redis or, while Redis\n" +
			"gives none, from --snapshot; /readyz says which, or what is missing.",
		Example: "  WEIR_REDIS=redis://:secret@redis:6379 weir limiter --limiter weir-system/default --drain 5s",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runLimiter(cmd.Context(), f, slog.Default())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.limiter, "limiter", "weir-system/default", "limiter whose policies to enforce, as namespace/name")
	flags.StringVar(&f.redis, "redis", "redis://127.0.0.1:6379", "Redis URL, redis:// or rediss:// (TLS); give one with a password in WEIR_REDIS")
	f.counters.add(flags)
	f.redisTLS.add(flags)
	flags.StringVar(&f.replica, "replica", "", "name of this replica, unique among those of the limiter (default host name and a random suffix)")
	flags.StringVar(&f.snapshot, "snapshot", "",
		"file with rules to begin with while Redis gives none, as the operator keeps them in a ConfigMap; it need not be there")
	f.sockets.add(flags)
	return cmd
}

// runLimiter wires a limiter up and runs it until ctx is done.
func runLimiter(ctx context.Context, f limiterFlags, log *slog.Logger) error {
	if _, err := limiterName(f.limiter); err != nil {
		return usageError(err)
	}
	if err := f.sockets.throttle.waits(f.counters.timeout); err != nil {
		return usageError(err)
	}
	client, err := openRedis(f.redis, f.redisTLS, f.counters.timeout)
	if err != nil {
		return usageError(err)
	}
	counters, err := redisCounters(client, f.counters, log)
	if err != nil {
		return usageError(err)
	}
	defer func() { _ = counters.close() }() // the process ends anyway
	// Connections of their own: a large rule set on its way must not hold up a decision.
	slow, err := openRedis(f.redis, f.redisTLS, exchangeTimeout)
	if err != nil {
		return usageError(err)
	}
	defer func() { _ = slow.Close() }()

	p, err := newProcess(ctx, counters, f.counters.prefix, f.sockets, log)
	if err != nil {
		return err
	}
	defer counters.guard(ctx)()
	exchange := controlplane.NewExchange(slow, f.counters.prefix, f.limiter)
	replica := replicaName(f.replica)
	presence := &presence{
		id: replica, exchange: exchange, process: p, local: counters.local, failover: counters.failover, census: source.NewReplicaCounter(replica, f.counters.replicas),
	}
	heartbeat := source.NewHeartbeat(controlplane.HeartbeatInterval, presence.beat, presence.forget, log)
	apply := func(set rules.Set, revision string) error {
		if err := p.apply(set, revision); err != nil {
			return err
		}
		heartbeat.Now() // the operator waits for the acknowledgement
		return nil
	}
	published := source.NewRedis(exchange, f.snapshot, apply, log)
	log.Info("limiter starts", "limiter", f.limiter, "replica", replica, "redis", redisPlace(f.redis),
		"listen", p.check.Addr(), "ops", p.ops.Addr())
	return p.run(ctx, published,
		endless(published.Run), endless(heartbeat.Run), newInspector(slow, p.registry, log).run, p.followNotices(slow))
}

// replicaName is the name given, or one that no other process has: host names and process ids repeat among containers.
func replicaName(given string) string {
	if given != "" {
		return given
	}
	suffix := strings.ToLower(rand.Text()[:6])
	host, err := os.Hostname()
	if err != nil || host == "" {
		return "limiter-" + suffix
	}
	return host + "-" + suffix
}

// redisPlace is the part of a Redis URL that may be logged: no user, no password, no options.
func redisPlace(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return "unknown" // Open has refused it already
	}
	return u.Scheme + "://" + u.Host + u.Path
}
