// Command kubectl-weir is the plugin of kubectl that answers questions about Weir in a cluster, with the kubeconfig of the user.
package main

import (
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/weir-dev/weir/cmd/internal/cli"
	"github.com/weir-dev/weir/cmd/internal/cli/ask"
	_ "github.com/weir-dev/weir/limiter/rules/expr/celexpr" // policies have expressions
)

func main() {
	os.Exit(run(arguments(os.Args), os.Stdout, os.Stderr))
}

// run executes a command line, without the name of the program, and returns its exit status.
func run(args []string, stdout, stderr io.Writer) int {
	return cli.Run(rootCommand(), args, stdout, stderr)
}

// completionName is the name under which kubectl finds the completion of the plugin on the PATH. It is a link to this program.
const completionName = "kubectl_complete-weir"

// arguments returns the arguments of a command line. kubectl runs the completion with the words that the user has typed.
func arguments(line []string) []string {
	if filepath.Base(line[0]) == completionName {
		return slices.Concat([]string{cobra.ShellCompRequestCmd}, line[1:])
	}
	return line[1:]
}

// rootCommand returns the plugin with its subcommands.
func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:         "kubectl-weir",
		Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl weir"},
		Short:       "Show and ask Weir in a cluster",
		Long: "Show the installation of Weir in a cluster and its problems, and ask the limiters: which policy denies a request, who sends the most,\n" +
			"what is left of a budget. kubectl runs this program as 'kubectl weir' if it is on the PATH.\n\n" +
			"Each flag can also be set with its environment variable. A flag on the command line takes precedence.",
		Example: "  kubectl weir status                                                 show the installation, and its problems\n" +
			"  kubectl weir explain --domain shop --header 'x-tenant-id: acme'     explain the decision about a request",
		Args: cli.NoUnknownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.AddCommand(statusCommand(), gatewayCommand(), diffCommand(), ask.RedisCommand(func() ask.Limiters { return &clusterFlags{} }))
	root.AddCommand(ask.Commands(func() ask.Limiters { return &clusterFlags{} })...)
	return cli.Complete(root)
}
