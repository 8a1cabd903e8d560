// Command screenshots takes the pictures of the dashboards in docs/reference/dashboards, in about 15 minutes. It starts two kube-apiservers,
// Redis, the operator, two limiters and Prometheus, puts a load with faults on them, and lets Chromium show the dashboards of config/grafana
// in a Grafana of this machine:
//
//	go run ./hack/screenshots -grafana /usr/share/grafana
//
// Prometheus, Chromium and pngquant come from the package manager. All processes listen on the loopback interface.
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
)

func main() {
	// A FlagSet of its own: controller-runtime registers -kubeconfig on flag.CommandLine.
	flags := flag.NewFlagSet("screenshots", flag.ExitOnError)
	home := flags.String("grafana", "", "home directory of Grafana 9 or later, the directory that contains conf and public (required)")
	out := flags.String("out", "docs/reference/dashboards", "directory of the pictures")
	keep := flags.Bool("keep", false, "keep everything running until Ctrl-C")
	_ = flags.Parse(os.Args[1:])   // exits on an error
	ctrl.SetLogger(logr.Discard()) // controller-runtime warns if no logger is set
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *home, *out, *keep)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "screenshots:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, home, out string, keep bool) (err error) {
	tools, err := findTools(ctx, home)
	if err != nil {
		return err
	}
	r, err := startRig(ctx, tools)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.stop()) }()
	load := startLoad(ctx, r.world)
	defer load.stop()
	if err := play(ctx, r.world, load); err != nil {
		return err
	}
	end := time.Now()
	for _, p := range pictures() {
		if err := r.take(ctx, p, end, out); err != nil {
			return fmt.Errorf("take %s: %w", p.file, err)
		}
	}
	if keep {
		fmt.Println("Grafana:", r.grafana.url)
		<-ctx.Done()
	}
	return nil
}
