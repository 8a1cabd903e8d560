// Command test runs the tests of a target of make: test, or test-all. Its last line counts the passed and failed tests.
//
//	bin/test/runner [-race] TARGET [PACKAGE...]
//
// PACKAGE is a pattern of the go command. The default is all packages of the target.
//
// It reads the events of go test, as gotestsum does. gotestsum shows neither what the go command compiles, which is most of the time of a
// first run, nor how much is left. The program needs almost only the standard library, so that it starts within seconds from an empty
// build cache.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

// eventsEnv is the environment variable with the path of a file for the events, the input of hack/retry.
const eventsEnv = "WEIR_TEST_EVENTS"

func main() {
	race := flag.Bool("race", false, "run concurrent packages with the race detector in make test; make test-all always does")
	flag.Usage = func() {
		fmt.Fprintf(os.Stderr, "usage: runner [-race] %s|%s [PACKAGE...]\n", targetTest, targetTestAll)
		flag.PrintDefaults()
	}
	flag.Parse()
	target := flag.Arg(0)
	if target != targetTest && target != targetTestAll {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, target, *race || target == targetTestAll, flag.Args()[1:])
	stop()
	switch {
	case errors.Is(err, context.Canceled):
		fmt.Fprintln(os.Stderr, "test: interrupted")
		os.Exit(130)
	case errors.Is(err, errTests):
		os.Exit(1)
	case err != nil:
		fmt.Fprintln(os.Stderr, "test:", err)
		os.Exit(1)
	}
}

// run runs the tests of a target.
func run(ctx context.Context, target string, race bool, patterns []string) error {
	if err := environment(); err != nil {
		return err
	}
	events, err := eventsFile()
	if err != nil {
		return err
	}
	r := newRunner(os.Stdout, events)
	stop := r.screen.start()
	err = r.target(ctx, target, race, patterns)
	stop()
	err = errors.Join(err, events.Close())
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return r.report(err)
}

// errTests means that tests failed, which is already printed.
var errTests = errors.New("tests failed")

// report prints the summary, if any test ran. Its last line counts the tests, so the reason that go test failed without a test comes first.
func (r *runner) report(err error) error {
	failed := len(r.results.failed) > 0
	if r.results.tests == 0 && !failed {
		return err
	}
	if err != nil && !failed {
		fmt.Fprintln(os.Stderr, "test:", err)
	}
	fmt.Println(r.results.summary(time.Since(r.began)))
	if err != nil || failed {
		return errTests
	}
	return nil
}

// environment sets what all go commands and all tests have in common.
func environment() error {
	if err := os.MkdirAll(workFolder, 0o755); err != nil {
		return fmt.Errorf("%w; start in the root of the repository", err)
	}
	for name, value := range map[string]string{
		// make build, make demo and the build of kube-apiserver have no cgo either, so each package is compiled once.
		"CGO_ENABLED": "0",
		// The linker and the test programs collect garbage less often. They take less CPU time and more memory.
		// fixture.StartWeir removes the variable, so that weir runs as in production.
		"GOGC": "400",
		// At its end, a program with the race detector waits a second for goroutines that still run. A race fails its test before that.
		"GORACE": "atexit_sleep_ms=50 " + os.Getenv("GORACE"),
	} {
		if err := os.Setenv(name, value); err != nil {
			return err
		}
	}
	return nil
}

func eventsFile() (io.WriteCloser, error) {
	path := os.Getenv(eventsEnv)
	if path == "" {
		return os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	}
	return os.Create(filepath.Clean(path)) //nolint:gosec // G304: the path is the developer's own
}
