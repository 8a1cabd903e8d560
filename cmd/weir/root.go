package main

import (
	"log/slog"
	"os"

	"github.com/spf13/cobra"
)

// rootCommand returns the command weir with its subcommands.
func rootCommand() *cobra.Command {
	var format, level string
	root := &cobra.Command{
		Use:   "weir",
		Short: "Rate limiting as Kubernetes policy",
		Long: "Weir enforces RateLimitPolicies exactly, across all replicas.\n\n" +
			"In a cluster, 'weir operator' compiles the policies and the replicas of 'weir limiter' enforce them.\n" +
			"Without a cluster, 'weir serve' enforces policies from a directory.\n\n" +
			"Each flag can also be set with its environment variable. A flag on the command line takes precedence.",
		Example: "  weir lint policies/               validate the policies in a directory\n" +
			"  weir serve --policies policies/   enforce them, without Kubernetes and without Redis",
		Args:          noUnknownCommand,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		SilenceUsage:  true,
		SilenceErrors: true,
		// The edit distance up to which commands are suggested for an unknown command.
		SuggestionsMinimumDistance: 2,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if err := applyEnvironment(cmd.Flags(), os.LookupEnv); err != nil {
				return usageError(err)
			}
			log, err := newLogger(cmd.ErrOrStderr(), format, level)
			if err != nil {
				return usageError(err)
			}
			slog.SetDefault(log)
			return nil
		},
	}
	root.SetFlagErrorFunc(flagError)
	root.PersistentFlags().StringVar(&format, "log-format", "text", "format of the log on stderr: text or json")
	root.PersistentFlags().StringVar(&level, "log-level", "info", "minimum level of log messages: debug, info, warn or error")
	root.AddCommand(operatorCommand(), limiterCommand(), serveCommand(), lintCommand(), explainCommand(), rulesCommand(), countersCommand(), bypassCommand(),
		topCommand(), logsCommand(), statusCommand(), gatewayCommand(), importCommand(), rateLimitCommand(), versionCommand())
	describeEnvironment(root)
	return root
}
