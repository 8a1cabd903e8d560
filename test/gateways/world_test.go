//go:build gateways

package gateways_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/weir-dev/weir/test/fixture"
)

// places are the addresses in a configuration, host:port.
type places struct {
	front, weir, upstream string
}

// world is a service behind an Envoy that calls Weir.
type world struct {
	places

	redis    *fixture.RedisProcess
	policies string // directory
	weir     *limiterProcess
	envoy    *envoy
	calls    *atomic.Int64 // that the service has received
}

// limiterProcess is a running weir serve.
type limiterProcess struct {
	*fixture.WeirProcess

	http, grpc, ops string // host:port
	killed          bool
}

// crash kills the limiter.
func (l *limiterProcess) crash() {
	l.killed = true
	l.Kill()
}

// newWorld starts a Redis, a limiter with the policies, and an Envoy with the configuration. The flags are for the limiter.
func newWorld(t *testing.T, policies string, config func(*testing.T, places) string, flags ...string) *world {
	t.Helper()
	w := newService(t, policies)
	w.weir = w.startLimiter(t, flags...)
	w.places.weir = w.weir.grpc
	w.envoy = startEnvoy(t, config(t, w.places))
	return w
}

// newService starts a Redis and a service. Limiters and an Envoy can then be started.
func newService(t testing.TB, policies string) *world {
	t.Helper()
	w := &world{redis: fixture.Redis(t), policies: t.TempDir(), calls: &atomic.Int64{}}
	if err := os.WriteFile(filepath.Join(w.policies, "policies.yaml"), []byte(policies), 0o600); err != nil {
		t.Fatal(err)
	}
	upstream := httptest.NewUnstartedServer(http.HandlerFunc(w.serve))
	upstream.Config.Protocols = cleartext(true)
	upstream.Start()
	t.Cleanup(upstream.Close)
	w.places.front, w.upstream = free(t), upstream.Listener.Addr().String()
	return w
}

// startLimiter runs weir serve until the test ends, and waits until it is ready.
func (w *world) startLimiter(t testing.TB, flags ...string) *limiterProcess {
	t.Helper()
	l := &limiterProcess{http: free(t), grpc: free(t), ops: free(t)}
	args := append([]string{
		"serve", "--policies", w.policies, "--redis", w.redis.URL(), "--listen", l.http, "--grpc-listen", l.grpc, "--ops-listen", l.ops,
	}, flags...)
	process, err := fixture.StartWeir(weir, args...)
	if err != nil {
		t.Fatal(err)
	}
	l.WeirProcess = process
	t.Cleanup(func() {
		if err := l.Stop(); err != nil && !l.killed {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("weir:\n%s", tail(l.Log()))
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := fixture.WaitHTTP(ctx, "http://"+l.ops+"/readyz", http.StatusOK); err != nil {
		t.Fatal(err)
	}
	return l
}

// serve is the service. It returns the cost that a request names as the field x-tokens.
func (w *world) serve(rw http.ResponseWriter, r *http.Request) {
	w.calls.Add(1)
	if tokens := r.URL.Query().Get("tokens"); tokens != "" {
		rw.Header().Set("X-Tokens", tokens)
	}
	_, _ = io.WriteString(rw, r.Method+" "+r.URL.Path)
}

// remaining returns what a peek at Weir's own HTTP API reports for a check: the remaining units of its strictest policy.
func (w *world) remaining(t *testing.T, check map[string]any) int {
	t.Helper()
	check["peek"] = true
	return w.check(t, check)
}

// spend spends units of a tenant's budget over Weir's own HTTP API.
func (w *world) spend(t *testing.T, tenant string, units int) {
	t.Helper()
	check := budgetOf(tenant)
	check["cost"] = units
	w.check(t, check)
}

func (w *world) check(t *testing.T, check map[string]any) (remaining int) {
	t.Helper()
	check["domain"] = "shop"
	body, err := json.Marshal(check)
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+w.weir.http+"/v1/check", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	a := do(t, http.DefaultClient, request)
	var answer struct {
		Results []struct{ Remaining int }
	}
	if err := json.Unmarshal([]byte(a.body), &answer); err != nil || len(answer.Results) == 0 {
		t.Fatalf("%s: %+v %v", body, a, err)
	}
	return answer.Results[0].Remaining
}

// answer is the response to a client.
type answer struct {
	status, major int
	header        http.Header
	body          string
}

// get sends a GET request. The names and values in more set headers.
func get(t testing.TB, url string, more ...string) answer {
	t.Helper()
	return getBy(t, http.DefaultClient, url, more...)
}

func getBy(t testing.TB, client *http.Client, url string, more ...string) answer {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(more); i += 2 {
		request.Header.Add(more[i], more[i+1])
	}
	return do(t, client, request)
}

func do(t testing.TB, client *http.Client, request *http.Request) answer {
	t.Helper()
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{response.StatusCode, response.ProtoMajor, response.Header, string(body)}
}

// statuses sends n requests and returns their statuses, separated by spaces.
func (w *world) statuses(t *testing.T, n int, path string, more ...string) string {
	t.Helper()
	var all []string
	for range n {
		all = append(all, http.StatusText(get(t, "http://"+w.front+path, more...).status))
	}
	return strings.Join(all, ", ")
}

// clientOf returns a client of HTTP/1.1 or HTTP/2 without TLS, with connections of its own.
func clientOf(t testing.TB, http2 bool) *http.Client {
	t.Helper()
	protocols := cleartext(false)
	if http2 {
		protocols = new(http.Protocols)
		protocols.SetUnencryptedHTTP2(true)
	}
	transport := &http.Transport{Protocols: protocols, MaxIdleConnsPerHost: 64}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: patience}
}

// cleartext returns HTTP/1.1, and HTTP/2 without TLS if both.
func cleartext(both bool) *http.Protocols {
	p := new(http.Protocols)
	p.SetHTTP1(true)
	p.SetUnencryptedHTTP2(both)
	return p
}

func free(t testing.TB) string {
	t.Helper()
	addr, err := fixture.FreeAddr(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return addr
}
