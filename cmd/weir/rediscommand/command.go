package rediscommand

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-dev/weir/cmd/internal/cli"
	"github.com/weir-dev/weir/cmd/internal/cli/redisreport"
	"github.com/weir-dev/weir/cmd/weir/flags"
	"github.com/weir-dev/weir/limiter/controlplane"
	"github.com/weir-dev/weir/limiter/redisclient"
	"github.com/weir-dev/weir/limiter/redisclient/identity"
	"github.com/weir-dev/weir/limiter/redisclient/redischeck"
	"github.com/weir-dev/weir/limiter/wait"
)

// tokenTimeout is how long the command waits for a provider of tokens.
const tokenTimeout = 10 * time.Second

// checkFlags are the flags of weir redis check.
type checkFlags struct {
	redis    string
	files    flags.RedisTLS
	prefix   string
	limiter  string
	group    string
	policies string
	timeout  time.Duration
	samples  int
	output   string
}

// Command returns weir redis.
func Command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "redis",
		Short: "Check a Redis for Weir",
		Args:  cli.NoUnknownCommand,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(checkCommand())
	return cmd
}

func checkCommand() *cobra.Command {
	var f checkFlags
	cmd := &cobra.Command{
		Use:   "check [URL]",
		Short: "Find out whether a Redis can hold the counters of Weir",
		Long: `Connect to Redis as a limiter does, and print what it is, whether it fits the URL, and what to change.

The command reports the server and its version, whether it is one server, a primary behind Sentinels or a Redis Cluster,
the memory, the eviction policy and the persistence, the permissions that the user lacks, the difference between the
clocks, and the duration of round trips. With --policies, it also reports how many identifiers fit into the free memory.

To check the permissions, the command tries each one on a counter of its own, which it removes. With --limiter, it tries
those of a Limiter in a cluster; without it, those of weir serve. It counts no request.

Run it where the limiters run: round trips and firewalls differ from place to place. A password in the arguments is
visible to other users of the machine: set WEIR_REDIS in place of the argument, or use --redis-credentials.

Exit status: 0 if Weir can use this Redis, 1 if it cannot, 2 if the command line is invalid. Warnings do not change it.`,
		Example: `  weir redis check redis://127.0.0.1:6379
  weir redis check rediss://cache.example:6379 --redis-credentials /etc/redis --redis-ca ca.crt --policies policies/
  weir redis check --limiter weir-system/default -o json | jq -r '.findings[].text'`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return cli.UsageError(fmt.Errorf("unexpected argument %q: name one URL", args[1]))
			}
			return nil
		},
		RunE: cli.Interruptible(func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				f.redis = args[0]
			}
			return f.run(cmd)
		}),
	}
	flags := cmd.Flags()
	flags.StringVar(&f.redis, "redis", "redis://127.0.0.1:6379", "Redis URL, if there is no argument; use the environment variable for a URL with a password")
	f.files.Add(flags)
	flags.StringVar(&f.prefix, "prefix", "weir:", cli.RedisPrefixHelp)
	flags.StringVar(&f.limiter, "limiter", "", "limiter whose permissions are checked, in the form namespace/name; empty checks those of weir serve")
	flags.StringVar(&f.group, "counter-group", "", "counter group of the limiter")
	flags.StringVar(&f.policies, "policies", "", "directory with policies, for which the command computes the memory of their counters")
	flags.DurationVar(&f.timeout, "redis-timeout", 50*time.Millisecond, "maximum time that a decision waits for Redis, with which round trips are compared")
	flags.IntVar(&f.samples, "samples", Samples, "number of round trips to each primary that are measured")
	flags.StringVarP(&f.output, "output", "o", redisreport.Table, "output format: table, json")
	cli.CompleteFlags(cmd, map[string]cli.Values{"output": cli.Fixed(redisreport.Table, redisreport.JSON)})
	return cmd
}

func (f *checkFlags) validate() error {
	if f.samples < 1 {
		return fmt.Errorf("--samples %d is invalid: must be at least 1", f.samples)
	}
	if err := redisreport.Validate(f.output); err != nil {
		return err
	}
	if f.limiter != "" {
		if _, err := flags.LimiterName(f.limiter); err != nil {
			return err
		}
	}
	return cli.ValidatePrefix(f.prefix)
}

func (f *checkFlags) run(cmd *cobra.Command) error {
	if err := f.validate(); err != nil {
		return cli.UsageError(err)
	}
	policies, err := readPolicies(f.policies)
	if err != nil {
		return cli.UsageError(err)
	}
	client, err := flags.OpenRedis(f.redis, f.files, Timeout, slog.New(slog.DiscardHandler)) // the report has the errors
	if err != nil {
		return cli.UsageError(err)
	}
	defer func() { _ = client.Close() }() // the command ends
	awaitToken(cmd.Context(), client)
	r := Check(cmd.Context(), client, &Settings{Names: f.names(client), Samples: f.samples, Timeout: f.timeout, Rules: policies})
	if err := redisreport.Print(cmd.OutOrStdout(), f.output, "", &r); err != nil {
		return err
	}
	if !r.Usable {
		return &cli.ExitError{Code: cli.ExitFailed}
	}
	return nil
}

// awaitToken waits until a provider of tokens has answered, or the timeout is over. A limiter decides without Redis meanwhile.
func awaitToken(ctx context.Context, client *redisclient.Client) {
	ctx, cancel := context.WithTimeout(ctx, tokenTimeout)
	defer cancel()
	for errors.Is(client.Ping(ctx), identity.ErrPending) {
		if !wait.Sleep(ctx, tokenTimeout/100) {
			return
		}
	}
}

// names returns the keys and channels of the limiter.
func (f *checkFlags) names(client *redisclient.Client) redischeck.Names {
	names := redischeck.NamesOf(f.prefix, f.prefix)
	if f.limiter != "" {
		names = names.WithReplica(controlplane.NewExchange(client, f.prefix, f.limiter))
	}
	if owner := cmp.Or(f.groupName(), f.limiter); owner != "" {
		names.Counters += owner + ":"
	}
	return names
}

func (f *checkFlags) groupName() string {
	if f.group == "" {
		return ""
	}
	return "@" + f.group
}
