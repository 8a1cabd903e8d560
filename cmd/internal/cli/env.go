package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Variable returns the environment variable of a flag: WEIR_REDIS_TIMEOUT for --redis-timeout.
func Variable(flag string) string {
	return "WEIR_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// describeEnvironment adds the environment variable to the help of each flag of cmd and of its subcommands.
func describeEnvironment(cmd *cobra.Command) {
	describe := func(f *pflag.Flag) { f.Usage += " (env " + Variable(f.Name) + ")" }
	cmd.LocalNonPersistentFlags().VisitAll(describe)
	cmd.PersistentFlags().VisitAll(describe)
	for _, sub := range cmd.Commands() {
		describeEnvironment(sub)
	}
}

// applyEnvironment sets each flag that is not on the command line and whose environment variable is set. An empty variable counts
// as not set.
func applyEnvironment(flags *pflag.FlagSet, lookup func(string) (string, bool)) error {
	var first error
	flags.VisitAll(func(f *pflag.Flag) {
		if first != nil || f.Changed || f.Name == "help" {
			return
		}
		value, ok := lookup(Variable(f.Name))
		if !ok || value == "" {
			return
		}
		if err := flags.Set(f.Name, value); err != nil {
			first = fmt.Errorf("environment variable %s: %w", Variable(f.Name), describeFlagError(err))
		}
	})
	return first
}
