// Command load asks limiters at a steady rate, whether they answer or not, and writes what it saw to its standard output:
// a line of JSON for every second. It runs in a pod, where callers of limiters are, and speaks HTTP as a careful caller
// does: it keeps connections open, but not for ever, and repeats nothing.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	var g generator
	flag.StringVar(&g.url, "url", "", "the limiter: http://host:port")
	flag.StringVar(&g.domain, "domain", "", "domain of the requests")
	flag.IntVar(&g.rate, "rate", 100, "requests per second")
	flag.IntVar(&g.requests, "requests", 0, "how many requests to send (default: until told to end)")
	flag.DurationVar(&g.patience, "patience", 5*time.Second, "how long to wait for an answer")
	flag.Float64Var(&g.leave, "leave", 0.01, "share of the requests that are the last ones on their connections")
	flag.Func("ask", "what to ask, as `SHARE PATH TENANTS`: how often beside the others, for which path, of how many tenants", g.add)
	quit := flag.Int("quit", 0, "instead of all that, send SIGQUIT to the process of this `ID`")
	flag.Parse()
	if *quit > 0 {
		return syscall.Kill(*quit, syscall.SIGQUIT)
	}
	if err := g.check(); err != nil {
		return err
	}
	return g.run(ctx, os.Stdout)
}
