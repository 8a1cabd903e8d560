// Command latency measures how much time a limiter adds to a write to the Kubernetes API. It creates ConfigMaps that a policy counts and
// allows, and ConfigMaps without a policy, in turn, with the same kube-apiserver. It fails if the difference exceeds the target. It also
// reports how much of the difference the call of the limiter takes on this machine when no policy counts the write: the time in the API
// server, on the network and in the limiter, without Redis.
//
//	go run ./hack/latency
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/weir-dev/weir/test/kubernetes"
)

// Targets for the added time.
const (
	maxP50 = 1500 * time.Microsecond
	maxP99 = 10 * time.Millisecond
)

func main() {
	// A FlagSet of its own: controller-runtime registers -kubeconfig on flag.CommandLine.
	flags := flag.NewFlagSet("latency", flag.ExitOnError)
	rounds := flags.Int("rounds", 3000, "number of creations of each kind, at least 100")
	_ = flags.Parse(os.Args[1:])   // exits on an error
	ctrl.SetLogger(logr.Discard()) // controller-runtime warns if no logger is set
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *rounds)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "latency:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, rounds int) (err error) {
	if rounds < 100 {
		return fmt.Errorf("-rounds %d: must be at least 100 for a 99th percentile", rounds)
	}
	world, err := kubernetes.Start(ctx, os.Stderr)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, world.Stop()) }()
	l, err := kubernetes.MeasureLatency(ctx, world, rounds)
	if err != nil {
		return err
	}
	fmt.Printf("%d creations of ConfigMaps with a limiter, and as many without, in turn\n\n%8s %12s %12s %12s %12s %12s\n", rounds,
		"", "with", "without", "added", "by the call", "target")
	var missed []error
	for _, p := range []struct {
		percent float64
		most    time.Duration
	}{{50, maxP50}, {99, maxP99}} {
		added, call := l.Added(p.percent)
		fmt.Printf("%8s %12v %12v %12v %12v %12v\n", fmt.Sprintf("p%v", p.percent), kubernetes.Percentile(l.Limited, p.percent).Round(time.Microsecond),
			kubernetes.Percentile(l.Baseline, p.percent).Round(time.Microsecond), added.Round(time.Microsecond), call.Round(time.Microsecond), p.most)
		if added > p.most {
			missed = append(missed, fmt.Errorf("p%v: %v added, more than the target of %v", p.percent, added, p.most))
		}
	}
	return errors.Join(missed...)
}
