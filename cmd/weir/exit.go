package main

import (
	"errors"
	"fmt"
	"io"
)

// Exit statuses other than 0.
const (
	exitFailed = 1 // the command failed, or reported problems
	exitUsage  = 2 // the command line is invalid
)

// exitError carries an exit status. A nil err means that the command has already printed the error.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit status %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// usageError marks err as an invalid command line.
func usageError(err error) error { return &exitError{code: exitUsage, err: err} }

// exitStatus returns the exit status for the error of a command, and prints the error unless the command has printed it. command is
// the path of the command, for example "weir serve".
func exitStatus(command string, err error, stderr io.Writer) int {
	if err == nil {
		return 0
	}
	status := &exitError{code: exitFailed, err: err}
	errors.As(err, &status)
	if status.err != nil {
		fmt.Fprintf(stderr, "%s: %v\n", command, err)
	}
	return status.code
}
