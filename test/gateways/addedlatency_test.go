//go:build gateways

package gateways_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"

	"github.com/weir-dev/weir/test/fixture"
)

// The load of BenchmarkEnvoy_AddedLatency. The rate is far below what two processors serve: then a latency is the time of one request, and
// not the length of a queue.
const (
	rounds           = 10
	requestsPerRound = 1000
	requestsPerSec   = 400
	benchClients     = 4
)

// emptyService answers each call with OK.
type emptyService struct {
	ratelimitv3.UnimplementedRateLimitServiceServer
}

func (emptyService) ShouldRateLimit(context.Context, *ratelimitv3.RateLimitRequest) (*ratelimitv3.RateLimitResponse, error) {
	return &ratelimitv3.RateLimitResponse{OverallCode: ratelimitv3.RateLimitResponse_OK}, nil
}

func startEmptyService(t testing.TB) (address string) {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	ratelimitv3.RegisterRateLimitServiceServer(server, emptyService{})
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return listener.Addr().String()
}

// stack is an Envoy in front of the service, with at most one filter.
type stack struct {
	name, front string
	took        []time.Duration
}

const (
	rlsFilter = `
          - name: envoy.filters.http.ratelimit
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimit
              domain: shop
              timeout: 1s
              failure_mode_deny: true
              rate_limit_service: {transport_api_version: V3, grpc_service: {envoy_grpc: {cluster_name: limiter}}}`
	authFilter = `
          - name: envoy.filters.http.ext_authz
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.ext_authz.v3.ExtAuthz
              transport_api_version: V3
              grpc_service: {envoy_grpc: {cluster_name: limiter}, timeout: 1s}`
)

// benchConfig returns the configuration of an Envoy. An error of the limiter fails the request.
func benchConfig(front, filter, limiter, upstream string) string {
	return `
static_resources:
  listeners:
  - name: http
    address: {socket_address: {` + socket(front) + `}}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: http
          use_remote_address: true
          http_filters:` + filter + `
          - name: envoy.filters.http.router
            typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}
          route_config:
            virtual_hosts:
            - name: shop
              domains: ["*"]
              typed_per_filter_config:
                envoy.filters.http.ext_authz:
                  "@type": type.googleapis.com/envoy.extensions.filters.http.ext_authz.v3.ExtAuthzPerRoute
                  check_settings: {context_extensions: {domain: shop}}
              routes:
              - match: {prefix: /}
                route: {cluster: shop, rate_limits: [{actions: [{remote_address: {}}]}]}
  clusters:
  - name: limiter
    type: STATIC
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: {http2_protocol_options: {}}
    load_assignment: {cluster_name: limiter, endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {` + socket(limiter) + `}}}}]}]}
  - name: shop
    type: STATIC
    load_assignment: {cluster_name: shop, endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {` + socket(upstream) + `}}}}]}]}
`
}

const benchPolicies = `
apiVersion: weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: descriptors, namespace: shop}
spec: {axis: IP, limit: 1000000000, window: 1m, identifier: {descriptor: remote_address}, match: {descriptors: [{key: remote_address}]}}
---
apiVersion: weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: requests, namespace: shop}
spec: {axis: IP, limit: 1000000000, window: 1m, match: {http: {paths: [{value: /}]}}}
`

// BenchmarkEnvoy_AddedLatency measures what a decision adds to the latency of a request through Envoy. It writes a table to
// dist/bench-gateways.md. The stacks take turns in short rounds, so that a change of the machine's speed affects all of them.
func BenchmarkEnvoy_AddedLatency(b *testing.B) {
	w := newService(b, benchPolicies)
	limiter := w.startLimiter(b)
	empty := startEmptyService(b)
	var stacks []*stack
	for _, s := range []struct{ name, filter, limiter string }{
		{"Envoy alone", "", empty},
		{"with an RLS server that only answers OK", rlsFilter, empty},
		{"with Weir, RLS", rlsFilter, limiter.grpc},
		{"with Weir, ext_authz", authFilter, limiter.grpc},
	} {
		front := free(b)
		startEnvoy(b, benchConfig(front, s.filter, s.limiter, w.upstream))
		stacks = append(stacks, &stack{name: s.name, front: front})
	}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: benchClients}, Timeout: patience}
	defer client.CloseIdleConnections()
	for b.Loop() {
		for round := range rounds + 1 { // the first one only warms up
			for _, s := range stacks {
				took := s.load(b, client)
				if round > 0 {
					s.took = append(s.took, took...)
				}
			}
		}
	}
	table := latencyTable(stacks)
	root, err := fixture.ModuleRoot()
	if err == nil {
		err = os.MkdirAll(filepath.Join(root, "dist"), 0o755)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(root, "dist", "bench-gateways.md"), []byte(table), 0o644)
	}
	if err != nil {
		b.Fatal(err)
	}
	fmt.Fprint(os.Stderr, "\n", table)
}

// load sends the requests of a round at a steady rate, and returns how long each took.
func (s *stack) load(b *testing.B, client *http.Client) []time.Duration {
	b.Helper()
	took, errs := make([]time.Duration, requestsPerRound), make([]error, benchClients)
	began := time.Now()
	var wg sync.WaitGroup
	for c := range benchClients {
		wg.Go(func() {
			for i := c; i < requestsPerRound && errs[c] == nil; i += benchClients {
				time.Sleep(time.Until(began.Add(time.Duration(i) * time.Second / requestsPerSec)))
				sent := time.Now()
				errs[c] = fetch(b.Context(), client, "http://"+s.front+"/")
				took[i] = time.Since(sent)
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			b.Fatalf("%s: %v", s.name, err)
		}
	}
	return took
}

func fetch(ctx context.Context, client *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d", response.StatusCode)
	}
	return nil
}

// latencyTable returns a Markdown table. The first stack is the base of the added latencies.
func latencyTable(stacks []*stack) string {
	var t strings.Builder
	fmt.Fprintf(&t, "%d requests to each, %d/s over %d connections, %d CPUs.\n\n", len(stacks[0].took), requestsPerSec, benchClients, runtime.NumCPU())
	t.WriteString("| | p50 | added | p99 | added |\n|---|---|---|---|---|\n")
	base := quantiles(stacks[0].took)
	for i, s := range stacks {
		q := quantiles(s.took)
		added := [2]string{"–", "–"}
		for j := range q {
			if i > 0 {
				added[j] = milliseconds(q[j] - base[j])
			}
		}
		fmt.Fprintf(&t, "| %s | %s | %s | %s | %s |\n", s.name, milliseconds(q[0]), added[0], milliseconds(q[1]), added[1])
	}
	return t.String()
}

// quantiles returns the median and the 99th percentile.
func quantiles(took []time.Duration) [2]time.Duration {
	sorted := slices.Sorted(slices.Values(took))
	return [2]time.Duration{sorted[(len(sorted)-1)/2], sorted[(len(sorted)*99+99)/100-1]}
}

func milliseconds(d time.Duration) string {
	return fmt.Sprintf("%.2f ms", float64(d)/float64(time.Millisecond))
}

func TestLatencyTable_HasTheAddedLatencies(t *testing.T) {
	base, slow := &stack{name: "base"}, &stack{name: "slow"}
	for i := range 200 {
		base.took = append(base.took, time.Duration(200-i)*time.Millisecond)
		slow.took = append(slow.took, time.Duration(2*i+2)*time.Millisecond)
	}
	want := "| base | 100.00 ms | – | 198.00 ms | – |\n| slow | 200.00 ms | 100.00 ms | 396.00 ms | 198.00 ms |\n"
	if got := latencyTable([]*stack{base, slow}); !strings.HasSuffix(got, want) {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}
