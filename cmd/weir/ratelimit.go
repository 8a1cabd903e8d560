package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/cmd/internal/cli"
	"github.com/weir-dev/weir/cmd/weir/flags"
	"github.com/weir-dev/weir/internal/importer/envoyratelimit"
	"github.com/weir-dev/weir/internal/ratelimitservice"
	"github.com/weir-dev/weir/limiter/redisclient/redischeck"
	"github.com/weir-dev/weir/limiter/reply"
	"github.com/weir-dev/weir/limiter/server/address"
)

// rateLimitCommandName is the command that runs if the binary has this name: Envoy Gateway starts /bin/ratelimit, without arguments.
const rateLimitCommandName = "ratelimit"

// rateLimitFlags are the flags of `weir ratelimit`. Everything else is in the environment that Envoy Gateway sets.
type rateLimitFlags struct {
	counters       counterFlags
	algorithm      string
	onStoreFailure string
	keep           time.Duration
	drain          time.Duration
}

// arguments returns the arguments of a command line.
func arguments(commandLine []string) []string {
	if filepath.Base(commandLine[0]) == rateLimitCommandName {
		return slices.Concat([]string{rateLimitCommandName}, commandLine[1:])
	}
	return commandLine[1:]
}

func rateLimitCommand() *cobra.Command {
	var f rateLimitFlags
	cmd := &cobra.Command{
		Use:   rateLimitCommandName,
		Short: "Replace the rate limit service of Envoy Gateway",
		Long: "Run in place of the rate limit service (github.com/envoyproxy/ratelimit) in the deployment of Envoy Gateway. The environment\n" +
			"variables are those of the service, and the configuration comes from Envoy Gateway over xDS. So the global rate limits of\n" +
			"BackendTrafficPolicies have the same effect. The binary does the same without arguments if its name is ratelimit.\n\n" +
			"By default, decisions are those of the service: windows are aligned to the Unix epoch, and a request that is over a limit is\n" +
			"counted as well. With another --algorithm, a request that one of its limits denies is not counted at all. A descriptor can choose\n" +
			"the algorithm of its limit in its metadata.\n\n" +
			"docs/how-to/replace-envoy-gateways-rate-limit-service.md lists the variables.",
		Example: "  CONFIG_TYPE=GRPC_XDS_SOTW CONFIG_GRPC_XDS_SERVER_URL=envoy-gateway:18001 REDIS_URL=redis:6379 weir ratelimit",
		Args:    cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			settings, err := ratelimitservice.ParseEnvironment(os.Environ())
			if err != nil {
				return cli.UsageError(err)
			}
			format, level := settings.LogFormat, settings.LogLevel
			if flag := cmd.Flags().Lookup("log-format"); flag.Changed {
				format = flag.Value.String()
			}
			if flag := cmd.Flags().Lookup("log-level"); flag.Changed {
				level = flag.Value.String()
			}
			log, err := cli.NewLogger(cmd.ErrOrStderr(), format, level)
			if err != nil {
				return cli.UsageError(err)
			}
			return runRateLimit(cmd.Context(), f, &settings, log)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.algorithm, "algorithm", string(envoyratelimit.ServiceAlgorithm),
		"algorithm of the limits without one in the metadata of their descriptor: "+strings.Join(envoyratelimit.Algorithms(), ", ")+
			".\n"+string(envoyratelimit.ServiceAlgorithm)+" decides as the service does")
	flags.StringVar(&f.onStoreFailure, "on-store-failure", string(v1alpha1.StoreFailureDeny),
		"what happens while Redis is unavailable: Deny fails calls, so that the failure mode of Envoy decides; Local enforces the\n"+
			"share of this replica; Allow admits all requests")
	flags.DurationVar(&f.keep, "keep-removed", 10*time.Second,
		"how long the limits of a domain stay active after Envoy Gateway has removed it: while it starts, it can list only some domains")
	flags.DurationVar(&f.drain, "drain", 5*time.Second, "how long to keep serving, not healthy, after SIGTERM")
	f.counters.add(flags)
	return cmd
}

// options returns how the configuration is compiled.
func (f *rateLimitFlags) options(shadow bool) (ratelimitservice.Options, error) {
	if !slices.Contains(envoyratelimit.Algorithms(), f.algorithm) {
		return ratelimitservice.Options{}, fmt.Errorf("invalid --algorithm %q: use one of %s", f.algorithm, strings.Join(envoyratelimit.Algorithms(), ", "))
	}
	failures := []string{string(v1alpha1.StoreFailureDeny), string(v1alpha1.StoreFailureLocal), string(v1alpha1.StoreFailureAllow)}
	if !slices.Contains(failures, f.onStoreFailure) {
		return ratelimitservice.Options{}, fmt.Errorf("invalid --on-store-failure %q: use one of %s", f.onStoreFailure, strings.Join(failures, ", "))
	}
	if f.keep < 0 {
		return ratelimitservice.Options{}, fmt.Errorf("--keep-removed %v is invalid: must not be negative", f.keep)
	}
	return ratelimitservice.Options{
		Algorithm: v1alpha1.Algorithm(f.algorithm), OnStoreFailure: v1alpha1.StoreFailure(f.onStoreFailure), Shadow: shadow,
	}, nil
}

// runRateLimit runs the service until ctx is done.
func runRateLimit(ctx context.Context, f rateLimitFlags, settings *ratelimitservice.Settings, log *slog.Logger) error {
	if len(settings.WithoutEffect) > 0 {
		log.Info("these environment variables have no effect", "variables", strings.Join(settings.WithoutEffect, ", "))
	}
	if len(settings.Unknown) > 0 {
		log.Warn("these environment variables are unknown and have no effect", "variables", strings.Join(settings.Unknown, ", "))
	}
	options, err := f.options(settings.Shadow)
	if err != nil {
		return cli.UsageError(err)
	}
	f.counters.prefix = settings.KeyPrefix + f.counters.prefix
	client, err := openServiceRedis(&settings.Redis, f.counters.timeout)
	if err != nil {
		return cli.UsageError(err)
	}
	counters, err := redisCounters(client, f.counters, log)
	if err != nil {
		return cli.UsageError(err)
	}
	defer func() { _ = counters.close() }() // the process ends anyway
	if counters.hashKey == nil {
		counters.hashKey = ratelimitservice.PublicHashKey()
		log.Info("credentials in descriptors are hashed with a published key: set --hash-key, so that hashes cannot be compared with guesses")
	}
	options.HashKey = counters.hashKey
	p, err := newProcess(ctx, counters, f.counters, "", serviceSockets(settings, f.drain), log)
	if err != nil {
		return err
	}
	counters.connection = redischeck.Connect(ctx, counters.client, redischeck.NamesOf(p.counterPrefix, p.keyPrefix), log)
	defer counters.guard(ctx)()
	s := newRateLimitService(p, settings, options, f.keep)
	s.ping = client.Ping
	p.service = s
	debug, err := s.serveDebug(ctx)
	if err != nil {
		return err
	}
	log.Info("starting in place of the rate limit service", "algorithm", f.algorithm, "xds", settings.XDS.Server, "node", settings.XDS.NodeID,
		"grpc", p.grpc.Addr(), "http", p.check.Addr(), "metrics", p.ops.Addr(), "debug", s.debug)
	tasks := append(counters.tasks(p), asTask(s.client().Run), asTask(s.expire), debug)
	return p.run(ctx, s, tasks...)
}

// serviceSockets returns the listeners and responses of the service as flags of a limiter.
func serviceSockets(settings *ratelimitservice.Settings, drain time.Duration) socketFlags {
	return socketFlags{
		listen: settings.HTTP, grpc: settings.GRPC, ops: settings.Metrics, drain: drain, style: string(reply.NoHeaders),
		clientHeader: string(address.XForwardedFor), refunds: refundsForbidden,
		grpcTLS: flags.ServerTLS{
			Prefix: "grpc", Listen: "--grpc-listen", Certificate: settings.Server.Certificate, Key: settings.Server.Key,
			ClientCA: settings.Server.ClientCA, ClientNames: settings.Server.ClientNames,
		},
	}
}

// healthHandler serves the health check of the service. It does not depend on Redis unless the environment requires it: Kubernetes would
// restart the pods in each outage of Redis.
func (s *rateLimitService) healthHandler(draining <-chan struct{}) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthcheck", func(w http.ResponseWriter, r *http.Request) {
		if err := s.health(r.Context(), draining); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		_, _ = fmt.Fprintln(w, "OK")
	})
	return mux
}

func (s *rateLimitService) health(ctx context.Context, draining <-chan struct{}) error {
	select {
	case <-draining:
		return errors.New("draining: the service is shutting down")
	default:
	}
	if s.settings.HealthNeedsConfig {
		if err := s.Ready(); err != nil {
			return err
		}
	}
	if s.settings.HealthNeedsRedis {
		if err := s.ping(ctx); err != nil {
			return fmt.Errorf("Redis is unavailable: %w", err) //nolint:staticcheck // the name of a program
		}
	}
	return nil
}
