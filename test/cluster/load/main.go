// Command load sends requests to limiters at a constant rate, whether they answer or not, and writes one line of JSON with statistics
// per second to standard output. It runs in a pod, like the callers of limiters. It reuses connections for a limited time, and it does
// not retry.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/weir-dev/weir/hack/command"
)

func main() {
	command.Main("load", run)
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
	paused := flag.String("pause", "", "stop the processes of the container with this `ID` until SIGTERM; needs hostPID, and the user of the container")
	flag.Parse()
	switch {
	case *quit > 0:
		return syscall.Kill(*quit, syscall.SIGQUIT)
	case *paused != "":
		return pause(ctx, *paused)
	}
	if err := g.check(); err != nil {
		return err
	}
	return g.run(ctx, os.Stdout)
}

// pause stops the processes of a container until the context ends, and then lets them continue.
func pause(ctx context.Context, container string) error {
	files, err := filepath.Glob("/proc/[0-9]*/cgroup")
	if err != nil {
		return err
	}
	var errs []error
	var stopped []int
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil || !bytes.Contains(text, []byte(container)) { // the process has ended, or belongs to another container
			continue
		}
		id, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err == nil {
			err = syscall.Kill(id, syscall.SIGSTOP)
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		stopped = append(stopped, id)
	}
	if len(stopped) == 0 {
		return errors.Join(append(errs, fmt.Errorf("no process of the container %s", container))...)
	}
	<-ctx.Done()
	for _, id := range stopped {
		errs = append(errs, syscall.Kill(id, syscall.SIGCONT))
	}
	return errors.Join(errs...)
}
