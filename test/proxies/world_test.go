package proxies_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-dev/weir/test/fixture"
)

// timeout bounds every wait.
const timeout = 30 * time.Second

// policies of the domain shop. Their windows are longer than any test.
const policies = `
apiVersion: weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: search, namespace: shop}
spec:
  axis: IP
  limit: 2
  window: 1h
  algorithm: SlidingWindowLog
  match: {http: {hosts: [api.shop.example], paths: [{type: PathPrefix, value: /v1/search}]}}
---
apiVersion: weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: orders, namespace: shop}
spec:
  axis: Tenant
  limit: 1
  window: 1h
  algorithm: SlidingWindowLog
  match: {http: {paths: [{type: PathPrefix, value: /v1/orders}], methods: [POST]}}
---
apiVersion: weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: bank, namespace: shop}
spec:
  axis: IP
  limit: 100
  window: 1h
  onStoreFailure: Deny
  match: {http: {paths: [{type: PathPrefix, value: /v1/bank}]}}
---
apiVersion: weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: export, namespace: shop}
spec:
  axis: IP
  limit: 1
  window: 1h
  match: {http: {paths: [{type: PathPrefix, value: /v1/export}]}}
  denial:
    status: 503
    message: '{"error":"export-quota"}'
    contentType: application/json
    headers: [{name: X-Plan, value: free}]
`

// manyPolicies have names of 60 bytes and different paths. All of them match a path that servers can read in too many ways.
func manyPolicies() string {
	var all strings.Builder
	for i := range 28 {
		fmt.Fprintf(&all, "---\napiVersion: weir.dev/v1alpha1\nkind: RateLimitPolicy\nmetadata: {name: %s%02d, namespace: shop}\n"+
			"spec: {axis: IP, limit: 1000, window: 1h, match: {http: {paths: [{type: PathPrefix, value: /v1/endpoint%02d}]}}}\n", strings.Repeat("n", 58), i, i)
	}
	return all.String()
}

// world is a service behind a proxy that calls Weir.
type world struct {
	*testing.T
	redis *fixture.RedisProcess
	weir  *fixture.WeirProcess
	front string       // host:port of the proxy
	calls atomic.Int64 // that the service has received
	// serviceShowsFields is true if the proxy gives the rate limit fields to the service and not to the client.
	serviceShowsFields bool
}

func newWorld(t *testing.T, weir string, p proxy, open bool) *world {
	t.Helper()
	w := &world{T: t, redis: fixture.Redis(t), serviceShowsFields: p.fieldsToService}
	upstream := httptest.NewServer(http.HandlerFunc(w.serve))
	t.Cleanup(upstream.Close)
	at := places{
		front: w.free(), weir: w.free(), upstream: upstream.Listener.Addr().String(), dir: t.TempDir(),
	}
	ops, dir := w.free(), t.TempDir()
	write(t, dir, "policies.yaml", policies+manyPolicies())
	w.weir = fixture.Weir(t, weir, "serve", "--policies", dir, "--redis", w.redis.URL(), "--grpc-listen=", "--listen", at.weir, "--ops-listen", ops)
	w.awaitOK("http://" + ops + "/readyz")
	run(t, at.dir, p, p.configure(t, at, document(t), open)...)
	w.awaitOK("http://" + at.front + "/free")
	w.front = at.front
	w.calls.Store(0)
	return w
}

// awaitOK waits until a URL responds with status 200.
func (w *world) awaitOK(url string) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), timeout)
	defer cancel()
	if err := fixture.WaitHTTP(ctx, url, http.StatusOK); err != nil {
		w.Fatal(err)
	}
}

func (w *world) free() string {
	w.Helper()
	addr, err := fixture.FreeAddr(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	return addr
}

// serve is the service: it returns the request, and an error status on two paths. It copies the rate limit fields of the request into
// the response, as the document advises for a proxy that gives them to the service only.
func (w *world) serve(rw http.ResponseWriter, r *http.Request) {
	w.calls.Add(1)
	body, _ := io.ReadAll(r.Body)
	for _, field := range []string{"Ratelimit", "Ratelimit-Policy"} {
		if values := r.Header.Values(field); w.serviceShowsFields && len(values) > 0 {
			rw.Header()[field] = values
		}
	}
	switch r.URL.Path {
	case "/forbidden":
		rw.WriteHeader(http.StatusForbidden)
	case "/broken":
		rw.WriteHeader(http.StatusInternalServerError)
	}
	_, _ = io.WriteString(rw, r.Method+" "+r.URL.RequestURI()+" "+string(body))
}

// answer is the response to a client.
type answer struct {
	status int
	header http.Header
	body   string
}

// send sends a request from 127.0.0.1 to api.shop.example. The names and values in more set other headers, "from" and "host" change
// these addresses, and "without host" is the version of a request without a host. It sends the bytes unchanged, which net/http would not do.
func (w *world) send(method, uri, body string, more ...string) answer {
	w.Helper()
	a, err := w.try(method, uri, body, more...)
	if err != nil {
		w.Fatalf("%s %s: %v", method, uri, err)
	}
	return a
}

// try is send for a request that the proxy may reject by closing the connection.
func (w *world) try(method, uri, body string, more ...string) (answer, error) {
	from, version := "127.0.0.1", "HTTP/1.1\r\nHost: api.shop.example"
	head := ""
	for i := 0; i < len(more); i += 2 {
		switch name, value := more[i], more[i+1]; name {
		case "from":
			from = value
		case "host":
			version = "HTTP/1.1\r\nHost: " + value
		case "without host":
			version = value
		default:
			head += name + ": " + value + "\r\n"
		}
	}
	if body != "" {
		head += "Content-Length: " + strconv.Itoa(len(body)) + "\r\n"
	}
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Deadline: time.Now().Add(timeout)}
	c, err := dialer.DialContext(w.Context(), "tcp", w.front)
	if err != nil {
		return answer{}, err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(timeout)); err != nil {
		return answer{}, err
	}
	text := method + " " + uri + " " + version + "\r\nConnection: close\r\n" + head + "\r\n" + body
	if _, err := io.WriteString(c, text); err != nil {
		return answer{}, err
	}
	response, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	return answer{response.StatusCode, response.Header, string(content)}, err
}
