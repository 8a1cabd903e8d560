// Package cli has what the command lines of Weir's programs share: flags that are also environment variables, errors with an exit status, the
// log, the version, and completion.
package cli

import (
	"context"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/weir-dev/weir/internal/terminal"
)

// Complete adds to root, the command of a program with all its subcommands, what all programs of Weir have: the flags of the log, the command
// version, environment variables for flags, and errors as [Run] prints them.
func Complete(root *cobra.Command) *cobra.Command {
	var format, level string
	root.SilenceUsage, root.SilenceErrors = true, true
	root.SuggestionsMinimumDistance = 2 // the edit distance up to which commands are suggested for an unknown command
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		if err := applyEnvironment(cmd.Flags(), os.LookupEnv); err != nil {
			return UsageError(err)
		}
		log, err := NewLogger(cmd.ErrOrStderr(), format, level)
		if err != nil {
			return UsageError(err)
		}
		slog.SetDefault(log)
		return nil
	}
	root.SetFlagErrorFunc(flagError)
	root.PersistentFlags().StringVar(&format, "log-format", "text", "format of the log on stderr: text or json")
	root.PersistentFlags().StringVar(&level, "log-level", "info", "minimum level of log messages: debug, info, warn or error")
	root.AddCommand(versionCommand(root.Name()))
	describeEnvironment(root)
	return root
}

// Run executes a command line, without the name of the program, and returns its exit status. Commands write to the terminal only through
// [terminal.Writer]: the texts that they print come from files, clients and limiters.
func Run(root *cobra.Command, args []string, stdout, stderr io.Writer) int {
	out, errors := terminal.NewWriter(stdout), terminal.NewWriter(stderr)
	defer errors.Flush()
	defer out.Flush()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process immediately

	root.SetArgs(args)
	root.SetOut(out)
	root.SetErr(errors)
	cmd, err := root.ExecuteContextC(ctx)
	return exitStatus(cmd.CommandPath(), err, errors)
}

// Streams are the standard streams of a command.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// StreamsOf returns the streams of cmd.
func StreamsOf(cmd *cobra.Command) Streams {
	return Streams{In: cmd.InOrStdin(), Out: cmd.OutOrStdout(), Err: cmd.ErrOrStderr()}
}
