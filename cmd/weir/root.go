package main

import (
	"log/slog"
	"os"

	"github.com/spf13/cobra"
)

// rootCommand is the composition of the commands.
func rootCommand() *cobra.Command {
	var format, level string
	root := &cobra.Command{
		Use:   "weir",
		Short: "Rate limiting as Kubernetes policy",
		Long: "Weir enforces RateLimitPolicies, exactly and across all replicas.\n\n" +
			"In a cluster, 'weir operator' compiles the policies and any number of 'weir limiter' answer requests by them.\n" +
			"Without one, 'weir serve' does the same with policies from a directory.\n\n" +
			"Every flag can also be given as the environment variable that stands beside it; the flag wins.",
		Example: "  weir lint policies/               check policies\n" +
			"  weir serve --policies policies/   enforce them, without Kubernetes and without Redis",
		Args:          noUnknownCommand,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		SilenceUsage:  true,
		SilenceErrors: true,
		// In letters: what a misspelt command may have been meant for.
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
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError(err) })
	root.PersistentFlags().StringVar(&format, "log-format", "text", "form of the log on stderr: text or json")
	root.PersistentFlags().StringVar(&level, "log-level", "info", "least level that is logged: debug, info, warn or error")
	root.AddCommand(operatorCommand(), limiterCommand(), serveCommand(), lintCommand(), versionCommand())
	describeEnvironment(root)
	return root
}
