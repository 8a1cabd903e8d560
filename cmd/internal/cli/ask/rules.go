package ask

import (
	"context"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/weir-dev/weir/cmd/internal/cli"
	"github.com/weir-dev/weir/cmd/internal/cli/explain"
	"github.com/weir-dev/weir/internal/terminal"
	"github.com/weir-dev/weir/limiter/admin"
)

func rulesCommand(newLimiters func() Limiters) *cobra.Command {
	limiters := newLimiters()
	var output string
	cmd := &cobra.Command{
		Use:   "rules",
		Short: "Print the rules that a limiter enforces now",
		Long: `Print the compiled policies that a limiter enforces now, and their revision. With the output format json or yaml, the
output contains everything that a rule matches and counts.`,
		Example: "  kubectl weir rules --limiter weir-system/default\n" +
			"  weir rules --admin unix:/run/weir/admin.sock\n" +
			"  weir rules --admin 127.0.0.1:9091 --admin-token-file token -o yaml",
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return printRules(cmd.Context(), limiters, output, cli.StreamsOf(cmd))
		},
	}
	limiters.AddFlags(cmd)
	addListOutput(cmd, &output)
	cmd.AddCommand(rulesDiffCommand(newLimiters()))
	return cmd
}

func printRules(ctx context.Context, limiters Limiters, output string, s cli.Streams) error {
	if err := validateListOutput(output); err != nil {
		return err
	}
	sets, err := call[admin.RuleSet](ctx, limiters, http.MethodGet, "/admin/v1/rules", nil, s.Err)
	if err != nil {
		return err
	}
	for _, other := range sets[1:] {
		if other.value.Revision != sets[0].value.Revision {
			terminal.Printf(s.Err, "replica %s enforces another revision: %s; printed are the rules of %s\n", other.replica, other.value.Revision, sets[0].replica)
		}
	}
	return explain.PrintRules(s.Out, output, &sets[0].value)
}
