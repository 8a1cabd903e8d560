package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weir-dev/weir/cmd/weir/explain"
	"github.com/weir-dev/weir/limiter/admin"
)

func rulesCommand() *cobra.Command {
	var endpoint adminClientFlags
	var output string
	cmd := &cobra.Command{
		Use:   "rules",
		Short: "Print the rules that a limiter enforces now",
		Long: `Print the compiled policies that a limiter enforces now, and their revision. With the output format json or yaml, the
output contains everything that a rule matches and counts.`,
		Example: "  kubectl weir rules --limiter weir-system/default\n" +
			"  weir rules --admin unix:/run/weir/admin.sock\n" +
			"  weir rules --admin 127.0.0.1:9091 --admin-token-file token -o yaml",
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return printRules(cmd.Context(), &endpoint, output, streams{cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr()})
		},
	}
	endpoint.add(cmd.Flags())
	addListOutput(cmd, &output)
	completeEndpoint(cmd, &endpoint)
	cmd.AddCommand(rulesDiffCommand())
	return cmd
}

// addOutput adds the flag --output.
func addOutput(cmd *cobra.Command, output *string) {
	cmd.Flags().StringVarP(output, "output", "o", explain.Table, "output format: "+strings.Join(explain.Formats(), ", "))
	completeFlags(cmd, map[string]values{"output": fixed(explain.Formats()...)})
}

func validateOutput(output string) error {
	if !slices.Contains(explain.Formats(), output) {
		return usageError(fmt.Errorf("--output %q is invalid: must be one of %s", output, strings.Join(explain.Formats(), ", ")))
	}
	return nil
}

// addListOutput adds the flag --output of a command that prints a list.
func addListOutput(cmd *cobra.Command, output *string) {
	cmd.Flags().StringVarP(output, "output", "o", explain.Table, "output format: "+strings.Join(explain.ListFormats(), ", "))
	completeFlags(cmd, map[string]values{"output": fixed(explain.ListFormats()...)})
}

func validateListOutput(output string) error {
	if output == explain.Name {
		return nil
	}
	if !slices.Contains(explain.Formats(), output) {
		return usageError(fmt.Errorf("--output %q is invalid: must be one of %s", output, strings.Join(explain.ListFormats(), ", ")))
	}
	return nil
}

func printRules(ctx context.Context, endpoint *adminClientFlags, output string, s streams) error {
	if err := validateListOutput(output); err != nil {
		return err
	}
	sets, err := ask[admin.RuleSet](ctx, endpoint, http.MethodGet, "/admin/v1/rules", nil, s.err)
	if err != nil {
		return err
	}
	for _, other := range sets[1:] {
		if other.value.Revision != sets[0].value.Revision {
			fmt.Fprintf(s.err, "replica %s enforces another revision: %s; printed are the rules of %s\n", other.replica, other.value.Revision, sets[0].replica)
		}
	}
	return explain.PrintRules(s.out, output, &sets[0].value)
}
