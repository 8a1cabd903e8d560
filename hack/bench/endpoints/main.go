// Command endpoints measures the throughput of the endpoints of a limiter over the network, and compares each with a baseline: a server
// that only sends the same response.
//
//	go run -C hack/bench ./endpoints
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
	"strings"
	"syscall"
)

// serveBaseline is the argument with which this program runs as a baseline server.
const serveBaseline = "serve-baseline"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "endpoints:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	if len(args) == 4 && args[0] == serveBaseline {
		return runBaseline(ctx, args[1], args[2], args[3])
	}
	s, err := parse(args, stderr)
	if err != nil {
		return err
	}
	w, err := newWorld(ctx, s)
	if err != nil {
		return errors.Join(err, w.close())
	}
	defer func() { err = errors.Join(err, w.close()) }()
	fmt.Fprintf(stdout, `%d processors, shared by this client, the servers and redis-server; %s, %s/%s; load before: %s.
%d rounds after one that is not counted, in each a turn of %v for every row; the order begins elsewhere in each round.
%d callers: over gRPC on %d connections, over HTTP/1.1 on one each. %d keys, asked about at random.
`, runtime.GOMAXPROCS(0), runtime.Version(), runtime.GOOS, runtime.GOARCH, load(), s.rounds, s.slice, s.callers, s.connections, s.keys)
	measured, err := w.measure(ctx, s, func(format string, a ...any) { fmt.Fprintf(stderr, format+"\n", a...) })
	if err != nil {
		return err
	}
	if err := measured.table(w.contenders).Write(stdout); err != nil {
		return err
	}
	share := 100 * measured.ratio(rlsKnown, rlsBaseline, sample.perSecond)
	fmt.Fprintf(stdout, "\nTarget: %s at least %d %% of their baseline a second: %.0f %%. Load after: %s.\n", rlsKnown, target, share, load())
	if s.strict && !(share >= target) {
		return fmt.Errorf("%s reach %.0f %% of their baseline, want at least %d %%", rlsKnown, share, target)
	}
	return nil
}

// load returns the load averages of the machine over 1, 5 and 15 minutes.
func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	fields := strings.Fields(string(text))
	if err != nil || len(fields) < 3 {
		return "unknown"
	}
	return strings.Join(fields[:3], " ")
}
