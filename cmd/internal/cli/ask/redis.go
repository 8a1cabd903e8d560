package ask

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weir-dev/weir/cmd/internal/cli"
	"github.com/weir-dev/weir/cmd/internal/cli/redisreport"
	"github.com/weir-dev/weir/internal/terminal"
	"github.com/weir-dev/weir/limiter/admin/adminapi"
)

// RedisCommand returns the command redis for the replicas of a Limiter. limiters is called once.
func RedisCommand(limiters func() Limiters) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "redis",
		Short: "Check the Redis of a Limiter",
		Args:  cli.NoUnknownCommand,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(redisCheckCommand(limiters()))
	return cmd
}

func redisCheckCommand(limiters Limiters) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "check [LIMITER]",
		Short: "Find out whether the replicas of a Limiter can use its Redis",
		Long: `Find out from each replica of a Limiter whether it can use its Redis, and print what to change. The output is that of
weir redis check. Each replica connects with its own network, credentials and certificates, as they are now, and tries each
permission that it needs on a counter of its own, which it removes. It counts no request. The memory is that of the active policies.

With the output format json, the command prints an object for each replica.

Exit status: 0 if each replica can use Redis, 1 if one cannot, or does not answer, 2 if the command line is invalid.
Warnings do not change it.`,
		Example: "  kubectl weir redis check\n" +
			"  kubectl weir redis check weir-system/default -o json | jq -r '.replica, .findings[].text'",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return cli.UsageError(fmt.Errorf("unexpected argument %q: name one Limiter", args[1]))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				if err := cmd.Flags().Set("limiter", args[0]); err != nil {
					return err
				}
			}
			return checkRedis(cmd.Context(), limiters, output, cli.StreamsOf(cmd))
		},
	}
	limiters.AddFlags(cmd)
	cmd.Flags().StringVarP(&output, "output", "o", redisreport.Table, "output format: table, json")
	cli.CompleteFlags(cmd, map[string]cli.Values{"output": cli.Fixed(redisreport.Table, redisreport.JSON)})
	return cmd
}

func checkRedis(ctx context.Context, limiters Limiters, output string, s cli.Streams) error {
	if err := redisreport.Validate(output); err != nil {
		return cli.UsageError(err)
	}
	answers, missing, err := callAll[adminapi.RedisReport](ctx, limiters, http.MethodGet, "/admin/v1/redis", nil, s.Err)
	if err != nil {
		return err
	}
	usable := true
	for i := range answers {
		answer := &answers[i]
		usable = usable && answer.value.Usable
		if i > 0 && output == redisreport.Table {
			terminal.Println(s.Out)
		}
		if err := redisreport.Print(s.Out, output, answer.replica, &answer.value); err != nil {
			return err
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("these replicas did not check Redis: %s", strings.Join(missing, ", "))
	}
	if !usable {
		return &cli.ExitError{Code: cli.ExitFailed}
	}
	return nil
}
