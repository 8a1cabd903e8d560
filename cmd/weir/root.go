package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/weir-dev/weir/cmd/internal/cli"
	"github.com/weir-dev/weir/cmd/internal/cli/ask"
	"github.com/weir-dev/weir/cmd/weir/files"
	"github.com/weir-dev/weir/cmd/weir/rediscommand"
	"github.com/weir-dev/weir/cmd/weir/replaycommand"
	"github.com/weir-dev/weir/cmd/weir/simulatecommand"
)

// rootCommand returns the command weir with its subcommands.
func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "weir",
		Short: "Rate limiting as Kubernetes policy",
		Long: "Weir enforces RateLimitPolicies exactly, across all replicas.\n\n" +
			"In a cluster, the program weir-operator compiles the policies, and the replicas of 'weir limiter' enforce them.\n" +
			"Without a cluster, 'weir serve' enforces policies from a directory. The program kubectl-weir shows and asks what runs in a cluster.\n\n" +
			"Each flag can also be set with its environment variable. A flag on the command line takes precedence.",
		Example: "  weir lint policies/                           validate the policies in a directory\n" +
			"  weir test policies/                           run their tests\n" +
			"  weir replay --policies policies/ access.log   find out what they would have denied, from an access log\n" +
			"  weir serve --policies policies/               enforce them, without Kubernetes and without Redis",
		Args: cli.NoUnknownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.AddCommand(limiterCommand(), serveCommand(), files.LintCommand(), files.TestCommand(), files.DiffCommand(), files.ImportCommand(), rateLimitCommand(),
		files.HashCommand(), rediscommand.Command(), replaycommand.Command(), simulatecommand.Command())
	root.AddCommand(ask.Commands(func() ask.Limiters { return &ask.Process{} })...)
	root.AddCommand(movedCommand("operator", "weir-operator"), movedCommand("status", "kubectl weir status"), movedCommand("gateway", "kubectl weir gateway"))
	return cli.Complete(root)
}

// movedCommand is a hidden command that names the program to run instead: one with a Kubernetes client.
func movedCommand(name, program string) *cobra.Command {
	return &cobra.Command{
		Use:                name,
		Hidden:             true,
		DisableFlagParsing: true,
		RunE: func(*cobra.Command, []string) error {
			return cli.UsageError(fmt.Errorf("weir has no Kubernetes client: run %s, with the same flags", program))
		},
	}
}
