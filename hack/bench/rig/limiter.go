// Package rig starts the processes that are measured.
package rig

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/weir-dev/weir/test/fixture"
)

const startup = 30 * time.Second

// Limiter is a running weir serve.
type Limiter struct {
	GRPC, HTTP string // host:port

	ops     string // host:port of its metrics
	process *fixture.WeirProcess
}

// StartLimiter runs a weir binary with the policies of a directory, and waits until it is ready.
func StartLimiter(ctx context.Context, binary, policies, redisURL string, flags ...string) (*Limiter, error) {
	l := &Limiter{}
	for _, address := range []*string{&l.GRPC, &l.HTTP, &l.ops} {
		var err error
		if *address, err = fixture.FreeAddr(ctx); err != nil {
			return nil, err
		}
	}
	var err error
	l.process, err = fixture.StartWeir(binary, append([]string{
		"serve", "--policies", policies, "--redis", redisURL, "--listen", l.HTTP, "--grpc-listen", l.GRPC, "--ops-listen", l.ops,
	}, flags...)...)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, startup)
	defer cancel()
	if err := fixture.WaitHTTP(ctx, "http://"+l.ops+"/readyz", http.StatusOK); err != nil {
		return nil, errors.Join(fmt.Errorf("%w; its log:\n%s", err, l.process.Log()), l.Stop())
	}
	return l, nil
}

// CPU returns the CPU time that the limiter has used.
func (l *Limiter) CPU(ctx context.Context) (time.Duration, error) {
	value, err := l.metric(ctx, "process_cpu_seconds_total")
	return time.Duration(value * float64(time.Second)), err
}

func (l *Limiter) metric(ctx context.Context, name string) (float64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+l.ops+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		if value, found := strings.CutPrefix(lines.Text(), name+" "); found {
			return strconv.ParseFloat(value, 64)
		}
	}
	return 0, fmt.Errorf("the limiter has no metric %s", name)
}

// Stop stops the limiter.
func (l *Limiter) Stop() error { return l.process.Stop() }
