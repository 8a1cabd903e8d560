// Command compare measures the endpoints of two revisions of a limiter in turn, and reports which differences are significant.
//
//	go run -C hack/bench ./compare -base main
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"syscall"
)

// The exit codes.
const (
	exitWorse = 1 // a figure is significantly worse
	exitError = 2
)

// errWorse means that the comparison succeeded, and the head is worse.
var errWorse = errors.New("worse")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
		return
	case errors.Is(err, errWorse):
		os.Exit(exitWorse)
	default:
		fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(exitError)
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	s, err := parse(args, stderr)
	if err != nil {
		return err
	}
	progress := func(format string, a ...any) { fmt.Fprintf(stderr, format+"\n", a...) }
	dir, err := os.MkdirTemp("", "weir-compare-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	sides, err := build(ctx, s, dir, progress)
	if err != nil {
		return err
	}
	w, err := newWorld(ctx, dir, sides, selected(s.only))
	if err != nil {
		return errors.Join(err, w.close())
	}
	defer func() { err = errors.Join(err, w.close()) }()
	fmt.Fprintf(stdout, `base: %s
head: %s
%d CPUs, shared by the load, the limiters and Redis; %s, %s/%s. %d rounds. In each round, both revisions have a turn of %v with each load.
`, sides[base].title, sides[head].title, runtime.GOMAXPROCS(0), runtime.Version(), runtime.GOOS, runtime.GOARCH, s.rounds, s.slice)
	measured, err := w.measure(ctx, s, progress)
	if err != nil {
		return err
	}
	if s.raw != "" {
		if err := measured.writeRaw(s.raw, sides); err != nil {
			return err
		}
	}
	verdicts := measured.verdicts(w.loads, s.tolerance)
	if err := table(verdicts).Write(stdout); err != nil {
		return err
	}
	worse := count(verdicts, isWorse)
	fmt.Fprintf(stdout, "\n%d of %d figures are worse, %d are better. A difference counts if p < %g and it is at least %g %%.\n",
		worse, len(verdicts), count(verdicts, isBetter), alpha, s.tolerance)
	if worse > 0 {
		return errWorse
	}
	return nil
}
