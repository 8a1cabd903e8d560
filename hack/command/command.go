// Package command has the main function of the programs for developers.
package command

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// Main calls run with a context that ends with SIGINT, SIGTERM and the signals also. If run fails, it prints the error after the name of the
// program, and exits with status 1. The error flag.ErrHelp is a success, because the flags have printed the usage.
func Main(name string, run func(context.Context) error, also ...os.Signal) {
	ctx, stop := signal.NotifyContext(context.Background(), append(also, os.Interrupt, syscall.SIGTERM)...)
	err := run(ctx)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}
