//go:build gateways

package gateways_test

import (
	"io"
	"maps"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const rollingPolicies = `
apiVersion: weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: rls, namespace: shop}
spec: {axis: Tenant, limit: 1000000, window: 720h, algorithm: FixedWindow, identifier: {descriptor: tenant}, match: {descriptors: [{key: tenant}]}}
---
apiVersion: weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: small, namespace: shop}
spec:
  axis: Tenant
  limit: 200
  window: 1h
  algorithm: SlidingWindowLog
  identifier: {descriptor: tenant}
  match: {descriptors: [{key: tenant, value: small}]}
---
apiVersion: weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: auth, namespace: shop}
spec: {axis: Tenant, limit: 1000000, window: 720h, algorithm: FixedWindow, identifier: {header: x-tenant-id}, match: {http: {methods: [GET]}}}
`

// Every limiter is replaced twice under load. Clients get no error, and what Envoy has let pass is what Weir has counted.
func TestEnvoy_RollingLimitersUnderLoad(t *testing.T) {
	w := newService(t, rollingPolicies)
	// A decision that Redis does not return in time counts in this process, and possibly in Redis as well. Here, time does not matter.
	flags := []string{"--drain", "1s", "--redis-timeout", "5s"}
	old := []*limiterProcess{w.startLimiter(t, flags...), w.startLimiter(t, flags...)}
	service := startService(t, old[0].grpc, old[1].grpc)
	w.places.weir = service.address
	w.envoy = startEnvoy(t, replace(t, documentedConfig(t, w.places), // each failed call is an error
		"failure_mode_allow: true", "failure_mode_allow: false", "failure_mode_deny: false", "failure_mode_deny: true", "timeout: 0.1s", "timeout: 10s"))

	load := startLoad(t, w.front, "acme", "acme", "beta", "small")
	for range 2 {
		for i, l := range old {
			w.weir = w.startLimiter(t, flags...)
			old[i] = w.weir
			service.set(old[0].grpc, old[1].grpc) // as a Service does when a pod terminates
			if err := l.Stop(); err != nil {
				t.Error(err)
			}
		}
	}
	counts := load.stop()
	t.Logf("statuses by tenant: %v", counts)
	for tenant, byStatus := range counts {
		others := maps.Clone(byStatus)
		delete(others, http.StatusOK)
		if tenant == "small" {
			delete(others, http.StatusTooManyRequests)
		}
		if len(others) > 0 {
			t.Errorf("%s: unexpected statuses: %v", tenant, others)
		}
	}
	if failed := w.errors(t); failed != 0 {
		t.Errorf("%d calls failed: %s", failed, get(t, "http://"+w.envoy.admin+"/stats?usedonly&filter=^cluster.weir").body)
	}
	if got := counts["small"][http.StatusOK]; got != 200 {
		t.Errorf("%d requests of a tenant with a limit of 200 have passed", got)
	}
	for _, tenant := range []string{"acme", "beta"} {
		passed := counts[tenant][http.StatusOK]
		byRLS := 1000000 - w.remaining(t, map[string]any{"descriptors": []any{[]any{map[string]string{"key": "tenant", "value": tenant}}}})
		byAuth := 1000000 - w.remaining(t, map[string]any{"method": "GET", "path": "/", "headers": map[string]string{"x-tenant-id": tenant}})
		if passed < 100 || byRLS != passed || byAuth != passed {
			t.Errorf("%s: %d requests have passed; Weir has counted %d by RLS and %d by ext_authz", tenant, passed, byRLS, byAuth)
		}
	}
}

// load is a number of clients that send requests until it is stopped.
type load struct {
	done    atomic.Bool
	clients sync.WaitGroup
	mu      sync.Mutex
	counts  map[string]map[int]int // by tenant and status; 0 is a request without a response
}

// startLoad starts a client for each of the tenants. Every other client uses HTTP/2.
func startLoad(t *testing.T, front string, tenants ...string) *load {
	t.Helper()
	l := &load{counts: map[string]map[int]int{}}
	for i, tenant := range tenants {
		l.counts[tenant] = map[int]int{}
		client := clientOf(t, i%2 == 1)
		l.clients.Go(func() {
			for !l.done.Load() {
				l.count(tenant, requestStatus(t, client, front, tenant))
			}
		})
	}
	t.Cleanup(func() { _ = l.stop() })
	return l
}

func (l *load) count(tenant string, status int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counts[tenant][status]++
}

func (l *load) stop() map[string]map[int]int {
	l.done.Store(true)
	l.clients.Wait()
	return l.counts
}

// requestStatus returns the status of a request, 0 without a response.
func requestStatus(t *testing.T, client *http.Client, front, tenant string) int {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+front+"/", nil)
	if err != nil {
		return 0
	}
	request.Header.Set("X-Tenant-Id", tenant)
	response, err := client.Do(request)
	if err != nil {
		return 0
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return 0
	}
	return response.StatusCode
}

// service forwards each new connection to the next of its backends, like a Service of Kubernetes. Connections stay with their backend.
type service struct {
	address  string // host:port
	mu       sync.Mutex
	backends []string
	next     int
}

func startService(t *testing.T, backends ...string) *service {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &service{address: listener.Addr().String(), backends: backends}
	var forwarding sync.WaitGroup
	forwarding.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			forwarding.Go(func() { s.forward(conn) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		forwarding.Wait() // Envoy has closed its connections
	})
	return s
}

func (s *service) set(backends ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.backends = backends
}

func (s *service) pick() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next++
	return s.backends[s.next%len(s.backends)]
}

func (s *service) forward(client net.Conn) {
	defer client.Close()
	backend, err := net.DialTimeout("tcp", s.pick(), time.Second)
	if err != nil {
		return
	}
	defer backend.Close()
	var copying sync.WaitGroup
	copying.Go(func() {
		_, _ = io.Copy(backend, client) // ends with the connection
		_ = backend.Close()
	})
	_, _ = io.Copy(client, backend) // ends with the connection
	_ = client.Close()
	copying.Wait()
}
