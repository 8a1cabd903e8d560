// Command latency measures what asking a limiter adds to a write to the Kubernetes API: creations of ConfigMaps that an admitting
// policy is about, in turn with ones that none is about, by the same kube-apiserver. It fails when that is more than it may be.
// Beside it stands what asking takes, on this machine, when there is nothing to count: the API server, the way, and the limiter
// without Redis.
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

// The bars: what may be added.
const (
	mostP50 = 1500 * time.Microsecond
	mostP99 = 10 * time.Millisecond
)

func main() {
	rounds := flag.Int("rounds", 3000, "creations of each kind")
	flag.Parse()
	ctrl.SetLogger(logr.Discard()) // which complains if nobody sets one
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
		return fmt.Errorf("-rounds %d: a 99th percentile takes 100", rounds)
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
	fmt.Printf("%d creations of ConfigMaps with a limiter asked, and as many without, in turn\n\n%8s %12s %12s %12s %12s %12s\n", rounds,
		"", "with", "without", "added", "by asking", "bar")
	var missed []error
	for _, p := range []struct {
		percent float64
		most    time.Duration
	}{{50, mostP50}, {99, mostP99}} {
		added, asking := l.Added(p.percent)
		fmt.Printf("%8s %12v %12v %12v %12v %12v\n", fmt.Sprintf("p%v", p.percent), kubernetes.Percentile(l.Limited, p.percent).Round(time.Microsecond),
			kubernetes.Percentile(l.Baseline, p.percent).Round(time.Microsecond), added.Round(time.Microsecond), asking.Round(time.Microsecond), p.most)
		if added > p.most {
			missed = append(missed, fmt.Errorf("p%v: %v added, more than %v", p.percent, added, p.most))
		}
	}
	return errors.Join(missed...)
}
