package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/policyfile"
	"github.com/weir-dev/weir/limiter/source"
)

// serveFlags are what `weir serve` can be told.
type serveFlags struct {
	policies string
	redis    string
	redisTLS redisTLSFlags
	counters counterFlags
	sockets  socketFlags
}

func serveCommand() *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use:   "serve --policies DIR",
		Short: "Answer requests by the policies in a directory, without Kubernetes",
		Long: "Enforces the policies in the *.yaml and *.yml files of a directory, and follows their changes: within a second,\n" +
			"in directories below it within five. Counters are in this process, or in Redis if --redis is given: then several\n" +
			"processes share them.\n\n" +
			"A policy with a problem is left out and told in the log as 'weir lint' would tell it; the others are enforced.\n" +
			"A policy that an edit breaks stays in force as it was until it is repaired or removed; so does every policy that is not\n" +
			"read, for as long as there is a file that is no YAML: it may be in there.",
		Example: "  weir serve --policies policies/\n" +
			"  weir serve --policies policies/ --redis redis://127.0.0.1:6379 --listen 127.0.0.1:8080",
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runServe(cmd.Context(), f, cmd.OutOrStdout(), slog.Default())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.policies, "policies", "", "directory of policies, those in its directories included; required")
	flags.StringVar(&f.redis, "redis", "", "Redis URL for the counters; give one with a password in WEIR_REDIS (default: count in this process)")
	f.counters.add(flags)
	f.redisTLS.add(flags)
	f.sockets.add(flags)
	return cmd
}

// runServe wires a standalone limiter up and runs it until ctx is done.
func runServe(ctx context.Context, f serveFlags, stdout io.Writer, log *slog.Logger) error {
	if err := checkDirectory(f.policies); err != nil {
		return usageError(err)
	}
	if err := f.sockets.throttle.waits(f.counters.timeout); err != nil {
		return usageError(err)
	}
	loader, err := policyfile.NewLoader(compile.DefaultIdentity())
	if err != nil {
		return err
	}
	counters, err := openCounters(f, log)
	if err != nil {
		return usageError(err)
	}
	defer func() { _ = counters.close() }() // the process ends anyway
	p, err := newProcess(ctx, counters, f.counters.prefix, f.sockets, log)
	if err != nil {
		return err
	}
	defer counters.guard(ctx)()
	dir := &directory{path: f.policies, loader: loader, install: p.apply}
	files := source.NewFiles(f.policies, dir.load, dir.apply, log)
	if err := files.Reload(); err != nil {
		return err
	}
	if len(dir.inForce.Rules) == 0 {
		log.Warn("no policy in force: every request is allowed", "policies", f.policies)
	}
	welcome(stdout, p, f, dir.inForce)
	return p.run(ctx, files, append(counters.tasks(p), files.Run)...)
}

func checkDirectory(path string) error {
	if path == "" {
		return errors.New("name the directory of policies with --policies DIR or WEIR_POLICIES")
	}
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("--policies: %w", err)
	}
	if !info.IsDir() {
		return fmt.Errorf("--policies: %s is a file; name the directory it is in", path)
	}
	return nil
}

// openCounters opens the counters that f asks for.
func openCounters(f serveFlags, log *slog.Logger) (*counters, error) {
	if f.redis == "" {
		if f.redisTLS != (redisTLSFlags{}) {
			return nil, errors.New("--redis-ca, --redis-cert, --redis-key and --redis-credentials are for --redis, which is empty")
		}
		if _, err := f.counters.memoryBytes(); err != nil {
			return nil, err
		}
		return memoryCounters(), nil
	}
	client, err := openRedis(f.redis, f.redisTLS, f.counters.timeout)
	if err != nil {
		return nil, err
	}
	return redisCounters(client, f.counters, log)
}
