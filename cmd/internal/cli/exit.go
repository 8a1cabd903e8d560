package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// Exit statuses other than 0.
const (
	ExitFailed = 1 // the command failed, or reported problems
	ExitUsage  = 2 // the command line is invalid
)

// ExitError carries an exit status. A nil Err means that the command has already printed the error.
type ExitError struct {
	Code int
	Err  error
}

func (e *ExitError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit status %d", e.Code)
	}
	return e.Err.Error()
}

func (e *ExitError) Unwrap() error { return e.Err }

// UsageError marks err as an invalid command line.
func UsageError(err error) error { return &ExitError{Code: ExitUsage, Err: err} }

// ExitInterrupted is the exit status of a command that a signal ended, as shells report it for Ctrl-C.
const ExitInterrupted = 130

// Interruptible returns run, which ends when the context of the command does: reading a pipe and converting large files do not watch it. What run still
// does ends with the process.
func Interruptible(run func(*cobra.Command, []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		done := make(chan error, 1)
		go func() { done <- run(cmd, args) }()
		select {
		case err := <-done:
			return err
		case <-cmd.Context().Done():
			return &ExitError{Code: ExitInterrupted, Err: errors.New("interrupted")}
		}
	}
}

// exitStatus returns the exit status for the error of a command, and prints the error unless the command has printed it. command is
// the path of the command, for example "weir serve".
func exitStatus(command string, err error, stderr io.Writer) int {
	if err == nil {
		return 0
	}
	status := &ExitError{Code: ExitFailed, Err: err}
	errors.As(err, &status)
	if status.Err != nil {
		// Errors quote what they are about, such as the name of a file. The indentation keeps the text from looking like output of its own.
		fmt.Fprintf(stderr, "%s: %s\n", command, strings.ReplaceAll(err.Error(), "\n", "\n  "))
	}
	return status.Code
}
