// Command demo shows Weir doing its main job on real parts: a kube-apiserver, Redis, the operator and two limiter
// processes. It prints each command it stands for before the command's result, checks every result, and ends with an
// error if one is not what it should be.
//
// With DEMO=once it ends after the story; else it leaves everything running until Ctrl-C.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	err := run(ctx, os.Getenv("DEMO") == "once")
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "\ndemo: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, once bool) (err error) {
	ctrl.SetLogger(logr.Discard()) // what starts the API server complains without one
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
		d.startStack, d.showPolicies, d.spendUntilDenied, d.editLive, d.deletePolicy,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	if once {
		d.say("That is the whole path, from kubectl apply to 429.")
		return nil
	}
	d.invite()
	<-ctx.Done()
	return nil
}
