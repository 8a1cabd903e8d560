package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"

	"github.com/weir-dev/weir/test/fixture"
)

// Domains of requests: in one the limit is spent, in the other it is not reached.
const (
	deniedDomain  = "denied"
	allowedDomain = "allowed"
)

const startup = 30 * time.Second

// policies limit descriptors and HTTP requests in both domains.
func policies() string {
	var b strings.Builder
	for domain, limit := range map[string]int{deniedDomain: 1, allowedDomain: 1_000_000} {
		for name, rest := range map[string]string{
			"descriptors": "identifier: {descriptor: tenant}\n  match: {descriptors: [{key: tenant}]}",
			"http":        "identifier: {header: x-tenant-id}\n  match: {http: {paths: [{type: PathPrefix, value: /orders}]}}",
		} {
			fmt.Fprintf(&b, "---\napiVersion: weir.dev/v1alpha1\nkind: RateLimitPolicy\nmetadata: {name: %s, namespace: %s}\n"+
				"spec:\n  axis: Tenant\n  limit: %d\n  window: 24h\n  algorithm: SlidingWindowCounter\n  %s\n", name, domain, limit, rest)
		}
	}
	return b.String()
}

// world has all processes and rows.
type world struct {
	dir        string
	redis      *fixture.RedisProcess
	baseline   *server
	limiters   [3]*server
	contenders []contender
}

// newWorld starts all processes. The caller must close the result, even after an error.
func newWorld(ctx context.Context, s settings) (*world, error) {
	w := &world{}
	var err error
	if w.dir, err = os.MkdirTemp("", "weir-endpoints-"); err != nil {
		return w, err
	}
	if w.redis, err = fixture.StartRedis(ctx); err != nil {
		return w, err
	}
	if err := os.WriteFile(filepath.Join(w.dir, "policies.yaml"), []byte(policies()), 0o600); err != nil {
		return w, err
	}
	for i := range w.limiters {
		if w.limiters[i], err = w.startLimiter(ctx, s.weir); err != nil {
			return w, err
		}
	}
	if w.baseline, err = w.startBaseline(ctx); err != nil {
		return w, err
	}
	w.contenders, err = newContenders(s, w.baseline, w.limiters)
	return w, err
}

func (w *world) close() error {
	errs := []error{w.baseline.stop()}
	for _, l := range w.limiters {
		errs = append(errs, l.stop())
	}
	if w.redis != nil {
		errs = append(errs, w.redis.Stop())
	}
	return errors.Join(append(errs, os.RemoveAll(w.dir))...) //nolint:gosec // a directory of its own
}

func addresses(ctx context.Context, of ...*string) error {
	for _, address := range of {
		var err error
		if *address, err = fixture.FreeAddr(ctx); err != nil {
			return err
		}
	}
	return nil
}

// startLimiter uses a long Redis timeout, so that a busy machine does not cause an outage.
func (w *world) startLimiter(ctx context.Context, weir string) (*server, error) {
	l := &server{}
	if err := addresses(ctx, &l.grpc, &l.http, &l.ops); err != nil {
		return nil, err
	}
	var err error
	l.process, err = fixture.StartWeir(weir, "serve", "--policies", w.dir, "--redis", w.redis.URL(), "--redis-timeout", "10s",
		"--listen", l.http, "--grpc-listen", l.grpc, "--ops-listen", l.ops)
	if err != nil {
		return nil, err
	}
	return l, l.wait(ctx, "http://"+l.ops+"/readyz")
}

func (s *server) wait(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, startup)
	defer cancel()
	if err := fixture.WaitHTTP(ctx, url, http.StatusOK); err != nil {
		return fmt.Errorf("%w; its log:\n%s", err, s.process.Log())
	}
	return nil
}

// startBaseline starts a baseline that responds as a limiter does when the limit is spent.
func (w *world) startBaseline(ctx context.Context) (*server, error) {
	a, err := w.record(ctx)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(a)
	if err != nil {
		return nil, err
	}
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	f := &server{}
	if err := addresses(ctx, &f.grpc, &f.http); err != nil {
		return nil, err
	}
	f.ops = f.http
	if f.process, err = fixture.StartWeir(program, serveBaseline, f.grpc, f.http, string(text)); err != nil {
		return nil, err
	}
	return f, f.wait(ctx, "http://"+f.ops+"/metrics")
}

// record calls each endpoint of a limiter twice with a key of its own, and returns the second responses.
func (w *world) record(ctx context.Context) (a answers, err error) {
	const key = 9_999_999
	limiter := w.limiters[0]
	connection, err := grpc.NewClient(limiter.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return answers{}, err
	}
	defer func() { err = errors.Join(err, connection.Close()) }()
	var rls *ratelimitv3.RateLimitResponse
	for range 2 {
		rls, err = ratelimitv3.NewRateLimitServiceClient(connection).ShouldRateLimit(ctx, rlsRequest(deniedDomain, key))
		if err != nil {
			return answers{}, err
		}
		check, err := checkRequest(ctx, limiter, deniedDomain, key)
		if err != nil {
			return answers{}, err
		}
		if a.Check, err = roundTrip(http.DefaultTransport, check); err != nil {
			return answers{}, err
		}
		auth, err := authRequest(ctx, limiter, deniedDomain, key)
		if err != nil {
			return answers{}, err
		}
		if a.Auth, err = roundTrip(http.DefaultTransport, auth); err != nil {
			return answers{}, err
		}
	}
	if a.RLS, err = proto.Marshal(rls); err != nil {
		return answers{}, err
	}
	if rls.GetOverallCode() != ratelimitv3.RateLimitResponse_OVER_LIMIT || a.Check.Status != 429 || a.Auth.Status != 429 {
		return answers{}, fmt.Errorf("what is spent is not denied: %v, %d, %d", rls.GetOverallCode(), a.Check.Status, a.Auth.Status)
	}
	for _, of := range []*httpAnswer{&a.Check, &a.Auth} {
		of.Header.Del("Date")
		of.Header.Del("Content-Length")
	}
	return a, nil
}

// redisProcessor returns the processor time that Redis has used.
func (w *world) redisProcessor(ctx context.Context) (time.Duration, error) {
	text, err := w.redis.Do(ctx, "INFO", "cpu")
	if err != nil {
		return 0, err
	}
	var sum float64
	for line := range strings.Lines(fmt.Sprint(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name != "used_cpu_user" && name != "used_cpu_sys" {
			continue
		}
		seconds, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return 0, fmt.Errorf("INFO's %s: %w", name, err)
		}
		sum += seconds
	}
	return time.Duration(sum * float64(time.Second)), nil
}
