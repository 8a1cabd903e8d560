package main

import (
	"context"
	"crypto/rand"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-dev/weir/cmd/internal/cli"
	"github.com/weir-dev/weir/cmd/weir/flags"
	"github.com/weir-dev/weir/cmd/weir/monitor"
	"github.com/weir-dev/weir/cmd/weir/rediscommand"
	"github.com/weir-dev/weir/limiter/controlplane"
	"github.com/weir-dev/weir/limiter/exempt"
	"github.com/weir-dev/weir/limiter/redisclient/redischeck"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/source"
)

// controlPlaneTimeout is the timeout of Redis commands that no request waits for: a rule set can have megabytes.
const controlPlaneTimeout = 2 * time.Second

// limiterFlags are the flags of `weir limiter`.
type limiterFlags struct {
	limiter  string
	redis    string
	redisTLS flags.RedisTLS
	counters counterFlags
	replica  string
	snapshot string
	sockets  socketFlags
	admin    limiterAdminFlags
}

func limiterCommand() *cobra.Command {
	var f limiterFlags
	cmd := &cobra.Command{
		Use:   "limiter",
		Short: "Enforce the policies that the operator published in Redis",
		Long: "Run one replica of a limiter. It loads the compiled policies of the limiter from Redis, follows changes, and decides\n" +
			"requests with counters in Redis. All replicas of a limiter share the counters.\n\n" +
			"A replica starts without Redis and without policies. It is ready when it has policies from Redis, or from --snapshot\n" +
			"while Redis has no policies. /readyz reports where the policies come from, or why the replica is not ready.",
		Example: "  WEIR_REDIS=redis://:secret@redis:6379 weir limiter --limiter weir-system/default --drain 5s",
		Args:    cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runLimiter(cmd.Context(), f, slog.Default())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.limiter, "limiter", "weir-system/default", "limiter whose policies are enforced, in the form namespace/name")
	flags.StringVar(&f.redis, "redis", "redis://127.0.0.1:6379",
		"Redis URL: redis://, or rediss:// for TLS; use the environment variable for a URL with a password")
	f.counters.add(flags)
	f.redisTLS.Add(flags)
	flags.StringVar(&f.replica, "replica", "", "name of this replica, unique within the limiter; empty uses the host name and a random suffix")
	flags.StringVar(&f.snapshot, "snapshot", "",
		"file with the rules while Redis has no rules or is unavailable, for example from the ConfigMap that the operator writes;\n"+
			"it replaces rules from Redis only if it is newer; the file is optional; empty disables it")
	f.sockets.add(flags)
	f.admin.add(flags)
	return cmd
}

// complete validates the flags, and sets what follows from the name of the Limiter.
func (f *limiterFlags) complete() error {
	name, err := flags.LimiterName(f.limiter)
	if err != nil {
		return err
	}
	f.sockets.throttle.namespace = name.Namespace
	return f.sockets.throttle.validateRedisTimeout(f.counters.timeout)
}

// runLimiter runs a limiter until ctx is done.
func runLimiter(ctx context.Context, f limiterFlags, log *slog.Logger) error {
	if err := f.complete(); err != nil {
		return cli.UsageError(err)
	}
	client, err := flags.OpenRedis(f.redis, f.redisTLS, f.counters.timeout, log)
	if err != nil {
		return cli.UsageError(err)
	}
	counters, err := redisCounters(client, f.counters, log)
	if err != nil {
		return cli.UsageError(err)
	}
	defer func() { _ = counters.close() }() // the process ends anyway
	// A client of its own: the transfer of a large rule set must not delay a decision.
	slow, err := flags.OpenRedis(f.redis, f.redisTLS, controlPlaneTimeout, log)
	if err != nil {
		return cli.UsageError(err)
	}
	defer func() { _ = slow.Close() }()

	p, err := newProcess(ctx, counters, f.counters, f.limiter, f.sockets, log)
	if err != nil {
		return err
	}
	exchange := controlplane.NewExchange(slow, f.counters.prefix, f.limiter)
	names := redischeck.NamesOf(p.counterPrefix, p.keyPrefix).WithReplica(exchange)
	counters.connection = redischeck.Connect(ctx, client, names, log, slow)
	p.published, p.redis = exchange, &rediscommand.Checker{URL: f.redis, Files: f.redisTLS, Names: names, Timeout: f.counters.timeout, Engine: p.engine}
	tasks, err := f.admin.tasks(ctx, p, counters, exempt.With(f.sockets.throttle.namespace, f.sockets.throttle.additional))
	if err != nil {
		return cli.UsageError(err)
	}
	p.shareBypasses(slow)
	defer counters.guard(ctx)()
	replica := replicaName(f.replica)
	registration := &replicaHeartbeat{
		id: replica, exchange: exchange, process: p, local: counters.local, failover: counters.layers.Failover, leases: counters.layers.Leases,
		replicas: source.NewReplicaCounter(replica, f.counters.replicas),
	}
	heartbeat := source.NewHeartbeat(controlplane.HeartbeatInterval, registration.beat, registration.deregister, log)
	apply := func(set *rules.Sharded, revision string) error {
		if err := p.apply(set, revision); err != nil {
			return err
		}
		heartbeat.Now() // the operator waits for this acknowledgement
		return nil
	}
	published := source.NewRedis(exchange, f.snapshot, apply, log)
	registration.rejected = published.Rejected
	tasks = append(tasks, monitor.RuleSetTasks(p.registry, published.Rejected, f.snapshot, p.revision)...)
	log.Info("starting limiter", "limiter", f.limiter, "replica", replica, "redis", flags.RedisPlace(f.redis),
		"listen", p.check.Addr(), "ops", p.ops.Addr())
	return p.run(ctx, published, append(tasks,
		asTask(published.Run), asTask(heartbeat.Run), monitor.NewInspector(slow, p.registry, log).Run, p.watchMemory(slow), p.followNotices(slow),
		asTask(counters.layers.Leases.Run), asTask(counters.connection.Run))...)
}

// replicaName returns the given name, or a unique one: containers can have equal host names and process IDs.
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
