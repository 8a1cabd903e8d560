// Command demo is the second part of the demo, after files. It shows Weir with real parts: a kube-apiserver, Redis, the operator and two limiter
// replicas. It prints each command as a user would type it, followed by the output, and fails if a result is not the expected one.
//
// With DEMO=once it exits after the walkthrough. Otherwise everything keeps running until Ctrl-C.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"syscall"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/weir-dev/weir/hack/command"
)

const usage = `Usage: demo

Start a kube-apiserver, Redis, the operator and two limiter replicas on this machine, and show how a policy is
applied, enforced, edited and deleted.

Environment:
  DEMO=once   exit after the walkthrough; otherwise everything keeps running until Ctrl-C
`

func main() {
	flags := flag.NewFlagSet("demo", flag.ContinueOnError) // not flag.CommandLine, which has flags of controller-runtime
	flags.Usage = func() { fmt.Fprint(flags.Output(), usage) }
	switch err := flags.Parse(os.Args[1:]); {
	case errors.Is(err, flag.ErrHelp):
		return
	case err != nil:
		os.Exit(2)
	case flags.NArg() > 0:
		fmt.Fprintf(os.Stderr, "demo: unexpected argument %q\n\n%s", flags.Arg(0), usage)
		os.Exit(2)
	}
	command.Main("\ndemo", func(ctx context.Context) error { return run(ctx, os.Getenv("DEMO") == "once") }, syscall.SIGHUP)
}

func run(ctx context.Context, once bool) (err error) {
	ctrl.SetLogger(logr.Discard()) // the package that starts the API server logs a warning without a logger
	d, err := prepare(ctx)
	if err != nil {
		return err
	}
	defer func() {
		if stopErr := d.stop(); err == nil {
			err = stopErr
		}
	}()
	for _, step := range []func(context.Context) error{
		d.startWeir, d.applyPolicies, d.sendRequests, d.editPolicy, d.deletePolicy,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	if once {
		return nil
	}
	d.showAddresses()
	<-ctx.Done()
	return nil
}
