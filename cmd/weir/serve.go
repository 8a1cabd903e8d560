package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"github.com/weir-dev/weir/cmd/internal/cli"
	"github.com/weir-dev/weir/cmd/weir/flags"
	"github.com/weir-dev/weir/cmd/weir/rediscommand"
	"github.com/weir-dev/weir/go/weir/directory"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/policyfile"
	"github.com/weir-dev/weir/internal/policyfile/apischema"
	"github.com/weir-dev/weir/limiter/exempt"
	"github.com/weir-dev/weir/limiter/redisclient/redischeck"
	"github.com/weir-dev/weir/limiter/source"
)

// serveFlags are the flags of `weir serve`.
type serveFlags struct {
	policies string
	redis    string
	redisTLS flags.RedisTLS
	counters counterFlags
	sockets  socketFlags
	admin    adminFlags
}

func serveCommand() *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use:   "serve --policies DIR",
		Short: "Enforce the policies in a directory, without Kubernetes",
		Long: "Run a limiter with the policies in the *.yaml, *.yml and *.json files of a directory. Changes are enforced within one second,\n" +
			"in subdirectories within five seconds. The counters are in this process or, with --redis, in Redis, where several\n" +
			"processes share them.\n\n" +
			"An invalid policy is not enforced, and its problems are logged with file, line, policy and field; valid policies\n" +
			"are enforced. If an edit makes a policy invalid, its previous version stays enforced until the policy is fixed or removed.\n" +
			"While a file is not valid YAML, all policies that cannot be found stay enforced, because the file may contain them.\n" +
			"If policies disappear from the files, the active rules stay for five more seconds,\n" +
			"because a program can be writing the files.",
		Example: "  weir serve --policies policies/\n" +
			"  weir serve --policies policies/ --redis redis://127.0.0.1:6379 --listen 127.0.0.1:8080",
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runServe(cmd.Context(), f, cmd.OutOrStdout(), slog.Default())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.policies, "policies", "", "directory with the policies, including its subdirectories; required")
	flags.StringVar(&f.redis, "redis", "",
		"Redis URL for the counters: redis://, or rediss:// for TLS; use the environment variable for a URL with a password;\n"+
			"empty keeps the counters in this process")
	f.counters.add(flags)
	f.redisTLS.Add(flags)
	f.sockets.add(flags)
	f.admin.add(flags)
	return cmd
}

// runServe runs a standalone limiter until ctx is done.
func runServe(ctx context.Context, f serveFlags, stdout io.Writer, log *slog.Logger) error {
	if err := checkDirectory(f.policies); err != nil {
		return cli.UsageError(err)
	}
	if err := f.sockets.throttle.validateRedisTimeout(f.counters.timeout); err != nil {
		return cli.UsageError(err)
	}
	if err := f.admin.validate(); err != nil {
		return cli.UsageError(err)
	}
	counters, err := openCounters(f, log)
	if err != nil {
		return cli.UsageError(err)
	}
	defer func() { _ = counters.close() }() // the process ends anyway
	p, err := newProcess(ctx, counters, f.counters, "", f.sockets, log)
	if err != nil {
		return err
	}
	if counters.client != nil {
		names := redischeck.NamesOf(p.counterPrefix, p.keyPrefix)
		counters.connection = redischeck.Connect(ctx, counters.client, names, log)
		p.redis = &rediscommand.Checker{URL: f.redis, Files: f.redisTLS, Names: names, Timeout: f.counters.timeout, Engine: p.engine}
		p.shareBypasses(counters.client)
	}
	defer counters.guard(ctx)()
	tasks := counters.tasks(p)
	listener, err := f.admin.open(ctx)
	if err != nil {
		return cli.UsageError(err)
	}
	if listener != nil {
		handler, err := f.admin.handler(p, counters, exempt.With("", f.sockets.throttle.additional))
		if err != nil {
			return errors.Join(err, listener.Close())
		}
		tasks = append(tasks, serveAdmin(p, handler, listener))
	}
	dir := &directory.Directory{
		Path: f.policies, Identity: compile.DefaultIdentity().WithHashKey(counters.hashKey), Install: p.applySet, Log: log,
		Schema: func() (policyfile.Schema, error) { return apischema.New() },
	}
	files := source.NewFiles(f.policies, dir.Load, dir.Apply, log)
	if err := files.Reload(); err != nil {
		return err
	}
	if f.sockets.decisionLog.IsOn() { // only decisions are on stdout
		log.Info("serving", "listen", p.check.Addr(), "ops", p.ops.Addr())
	} else {
		printBanner(stdout, p, f, dir.Active, counters.connection == nil || counters.connection.Usable())
	}
	return p.run(ctx, files, append(tasks, files.Run)...)
}

func checkDirectory(path string) error {
	if path == "" {
		return errors.New("--policies is required: set it, or WEIR_POLICIES, to the directory with the policies")
	}
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("--policies: %w", err)
	}
	if !info.IsDir() {
		return fmt.Errorf("--policies: %s is not a directory; use the directory that contains it", path)
	}
	return nil
}

// openCounters opens the counters that f configures.
func openCounters(f serveFlags, log *slog.Logger) (*counters, error) {
	if f.redis == "" {
		if f.redisTLS != (flags.RedisTLS{}) {
			return nil, errors.New("--redis-ca, --redis-cert, --redis-key, --redis-credentials and --redis-auth require --redis, which is empty")
		}
		return memoryCounters(f.counters)
	}
	client, err := flags.OpenRedis(f.redis, f.redisTLS, f.counters.timeout, log)
	if err != nil {
		return nil, err
	}
	return redisCounters(client, f.counters, log)
}
