// Command weir is rate limiting as Kubernetes policy: the operator, the limiter and their tools in one binary.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	if decidesRequests(os.Args) {
		coarsenTimers(os.Args)
	}
	os.Exit(runAs(os.Args, os.Stdout, os.Stderr))
}

// run executes a command of weir and returns its exit status.
func run(args []string, stdout, stderr io.Writer) int {
	return runAs(append([]string{"weir"}, args...), stdout, stderr)
}

// runAs executes a command line, which begins with the name of the program, and returns its exit status.
func runAs(line []string, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process immediately

	root := rootCommand()
	asPlugin(root, line[0])
	root.SetArgs(pluginArguments(line))
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(ctx)
	return exitStatus(cmd.CommandPath(), err, stderr)
}
