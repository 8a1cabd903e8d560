// Command load sends requests to limiters at a constant rate, whether they answer or not, and writes one line of JSON with statistics
// per second to standard output. It runs in a pod, like the callers of limiters. It reuses connections for a limited time, and it does
// not retry.
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
	flag.StringVar(&g.url, "url", "", "URL of the limiter or gateway: http://host:port")
	flag.StringVar(&g.domain, "domain", "", "domain of the requests")
	flag.BoolVar(&g.gateway, "gateway", false, "send GET requests to the URL of a gateway; only their status counts")
	flag.IntVar(&g.rate, "rate", 100, "requests per second")
	flag.IntVar(&g.requests, "requests", 0, "number of requests (default: no limit)")
	flag.DurationVar(&g.timeout, "timeout", 5*time.Second, "timeout of a request")
	flag.Float64Var(&g.closeShare, "close", 0.01, "share of the requests that close their connection")
	flag.Func("request", "a request to repeat, as `SHARE PATH TENANTS`: its weight, its path, and the number of tenants", g.add)
	quit := flag.Int("quit", 0, "send SIGQUIT to the process with this `ID`, and exit")
	flag.Parse()
	if *quit > 0 {
		return syscall.Kill(*quit, syscall.SIGQUIT)
	}
	if err := g.check(); err != nil {
		return err
	}
	return g.run(ctx, os.Stdout)
}
