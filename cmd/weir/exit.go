package main

import (
	"errors"
	"fmt"
	"io"
)

// Exit statuses beside 0.
const (
	exitFailed = 1 // the command did its work and the outcome is bad, or it could not do it
	exitUsage  = 2 // the command was called in a way it does not understand
)

// exitError asks for an exit status. A nil err means that the command has said already what was wrong.
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

// usageError marks err as a wrong call of a command.
func usageError(err error) error { return &exitError{code: exitUsage, err: err} }

// exitStatus is the status that a command's error ends the process with. It tells the user what has not been told yet.
func exitStatus(err error, stderr io.Writer) int {
	if err == nil {
		return 0
	}
	status := &exitError{code: exitFailed, err: err}
	errors.As(err, &status)
	if status.err != nil {
		fmt.Fprintf(stderr, "weir: %v\n", err)
	}
	return status.code
}
