package endpoints_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	descriptorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/weir-dev/weir/go/httplimit"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/test/fixture"
)

// loadBalancer is the address of the load balancer that uses the PROXY protocol. It is an address of this machine.
const loadBalancer = "127.0.0.2"

// drain is how long the process keeps serving after SIGTERM. The requests in flight take longer, see delayingPolicy.
const drain = 300 * time.Millisecond

// delayingPolicy is a policy that delays the second request of a tenant by one second.
const delayingPolicy = `
apiVersion: weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: slowly, namespace: shop}
spec: {axis: Tenant, limit: 1, window: 1s, algorithm: LeakyBucket, burst: 3, match: {http: {hosts: [slow.example]}}}
`

// serving is a `weir serve` with all flags of its listeners.
type serving struct {
	process        *fixture.WeirProcess
	http, ops, rpc string // URLs, and the host:port of gRPC
	tls            *fixture.TLSFiles
	h2c            *http.Client
}

func TestServe_WithAllFlagsOfItsListeners(t *testing.T) {
	t.Cleanup(http.DefaultClient.CloseIdleConnections) // fixture.WaitHTTP uses the default client
	weir, err := fixture.BuildWeir(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Run("rejects invalid flags", func(t *testing.T) { rejectsInvalidFlags(t, weir) })
	t.Run("serves each endpoint", func(t *testing.T) { servesEachEndpoint(t, serve(t, weir)) })
	t.Run("trusts a load balancer with the PROXY protocol", func(t *testing.T) { usesTheProxyProtocol(t, serve(t, weir)) })
	t.Run("requires client certificates for gRPC", func(t *testing.T) { requiresClientCertificates(t, serve(t, weir)) })
	t.Run("uses renewed certificates", func(t *testing.T) { renewsCertificates(t, serve(t, weir)) })
	t.Run("drains both servers", func(t *testing.T) { drainsBothServers(t, serve(t, weir)) })
}

// serve runs weir until the test ends.
func serve(t *testing.T, weir string) *serving {
	t.Helper()
	files, err := fixture.WriteTLSFiles(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s := &serving{tls: files}
	s.process = fixture.Weir(t, weir, "serve", "--policies", policyDir(t),
		"--listen", "127.0.0.1:0", "--grpc-listen", "127.0.0.1:0", "--ops-listen", "127.0.0.1:0", "--drain", drain.String(),
		"--trusted-proxies", "10.0.0.0/8,127.0.0.1", "--claims-header", claimsHeader, "--response-headers", "GitHub",
		"--proxy-protocol-from", loadBalancer,
		"--grpc-cert", files.ServerCert, "--grpc-key", files.ServerKey, "--grpc-client-ca", files.CA)
	s.http = s.waitForLog(t, `at (http://127\.0\.0\.1:[0-9]+)/v1/check`)
	s.rpc = s.waitForLog(t, `gRPC for Envoy at (127\.0\.0\.1:[0-9]+)`)
	s.ops = s.waitForLog(t, `probes at (http://127\.0\.0\.1:[0-9]+)\n`)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := fixture.WaitHTTP(ctx, s.ops+"/readyz", http.StatusOK); err != nil {
		t.Fatal(err)
	}
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	s.h2c = &http.Client{Transport: &http.Transport{Protocols: protocols}, Timeout: patience}
	t.Cleanup(s.h2c.CloseIdleConnections)
	return s
}

// policyDir returns a directory with the policies of the table and delayingPolicy.
func policyDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata/policies")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "slowly.yaml"), []byte(delayingPolicy), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// waitForLog waits until the log of the process matches the expression, and returns the first group of the match.
func (s *serving) waitForLog(t *testing.T, expression string) (found string) {
	t.Helper()
	pattern := regexp.MustCompile(expression)
	fixture.Await(t, "the process prints "+expression, func() bool {
		m := pattern.FindStringSubmatch(s.process.Log())
		if m != nil {
			found = m[1]
		}
		return m != nil
	})
	return found
}

// httpResponse is an HTTP response with its body.
type httpResponse struct {
	status, major int
	header        http.Header
	body          string
}

// send sends a request over HTTP/2 without TLS.
func (s *serving) send(t *testing.T, method, path, body string, header http.Header) httpResponse {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, s.http+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if header != nil {
		request.Header = header
	}
	response, err := s.h2c.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return httpResponse{response.StatusCode, response.ProtoMajor, response.Header, string(text)}
}

// wantRemaining checks the remaining units of a counter in the domain shop with a peek.
func (s *serving) wantRemaining(t *testing.T, check string, want int) {
	t.Helper()
	a := s.send(t, http.MethodPost, "/v1/check", `{"domain":"shop","peek":true,`+check+`}`, nil)
	if !strings.Contains(a.body, fmt.Sprintf(`"remaining":%d,`, want)) {
		t.Errorf("%s: want %d remaining units: %+v", check, want, a)
	}
}

// dial connects to gRPC with credentials c until the test ends.
func (s *serving) dial(t *testing.T, c credentials.TransportCredentials) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(s.rpc, grpc.WithTransportCredentials(c))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() }) // all calls have ended
	return conn
}

// knownClient returns the TLS configuration of a client that the process accepts.
func (s *serving) knownClient(t *testing.T) *tls.Config {
	t.Helper()
	config, err := s.tls.ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	return config
}

func (s *serving) dialAsKnownClient(t *testing.T) *grpc.ClientConn {
	t.Helper()
	return s.dial(t, credentials.NewTLS(s.knownClient(t)))
}

func login(address string) *ratelimitv3.RateLimitRequest {
	return &ratelimitv3.RateLimitRequest{Domain: "shop", Descriptors: []*descriptorv3.RateLimitDescriptor{{
		Entries: []*descriptorv3.RateLimitDescriptor_Entry{{Key: "generic_key", Value: "login"}, {Key: "remote_address", Value: address}},
	}}}
}

func servesEachEndpoint(t *testing.T, s *serving) {
	a := s.send(t, http.MethodPost, "/v1/check", `{"domain":"shop","host":"ip.example","clientIP":"192.0.2.1"}`, nil)
	if a.status != http.StatusOK || a.major != 2 || a.header.Get("X-Ratelimit-Limit") != "3" || a.header.Get("X-Ratelimit-Remaining") != "2" ||
		len(a.header["Ratelimit"]) > 0 {
		t.Errorf("/v1/check: %+v", a)
	}

	a = s.send(t, http.MethodGet, "/v1/auth/shop", "", http.Header{
		"X-Forwarded-Method": {"GET"}, "X-Forwarded-Uri": {"/"}, "X-Forwarded-Host": {"ip.example"},
		"X-Forwarded-For": {"6.6.6.6, 192.0.2.2, 10.0.0.9"},
	})
	if a.status != http.StatusOK || a.major != 2 || a.header.Get("X-Ratelimit-Remaining") != "2" {
		t.Errorf("/v1/auth: %+v", a)
	}
	s.wantRemaining(t, `"host":"ip.example","clientIP":"192.0.2.2"`, 2)

	a = s.send(t, http.MethodGet, "/v1/auth/shop", "", http.Header{
		"X-Original-Method": {"GET"}, "X-Original-Url": {"https://claim.example/"}, "X-Forwarded-For": {"192.0.2.2"},
		"X-Jwt-Payload": {base64.RawURLEncoding.EncodeToString([]byte(`{"sub":"ada"}`))},
	})
	if a.status != http.StatusOK || a.header.Get("X-Ratelimit-Limit") != "5" {
		t.Errorf("/v1/auth with claims: %+v", a)
	}
	s.wantRemaining(t, `"host":"claim.example","claims":{"sub":"ada"}`, 4)

	conn := s.dialAsKnownClient(t)
	authorized, err := authv3.NewAuthorizationClient(conn).Check(t.Context(), &authv3.CheckRequest{Attributes: &authv3.AttributeContext{
		ContextExtensions: map[string]string{"domain": "shop"},
		Source: &authv3.AttributeContext_Peer{Address: &corev3.Address{Address: &corev3.Address_SocketAddress{
			SocketAddress: &corev3.SocketAddress{Address: "10.0.0.1"},
		}}},
		Request: &authv3.AttributeContext_Request{Http: &authv3.AttributeContext_HttpRequest{
			Method: "GET", Host: "ip.example", Path: "/", Headers: map[string]string{forwardedFor: "6.6.6.6, 192.0.2.3, 10.0.0.1"},
		}},
	}})
	if err != nil || authorized.GetOkResponse() == nil || !strings.Contains(fmt.Sprint(authorized), "x-ratelimit-remaining") {
		t.Errorf("ext_authz: %v, %v", authorized, err)
	}
	s.wantRemaining(t, `"host":"ip.example","clientIP":"192.0.2.3"`, 2)

	limited, err := ratelimitv3.NewRateLimitServiceClient(conn).ShouldRateLimit(t.Context(), login("192.0.2.4"))
	if err != nil || limited.GetOverallCode() != ratelimitv3.RateLimitResponse_OK || !strings.Contains(fmt.Sprint(limited), "x-ratelimit-remaining") {
		t.Errorf("RLS: %v, %v", limited, err)
	}
	s.wantRemaining(t, `"descriptors":[[{"key":"generic_key","value":"login"},{"key":"remote_address","value":"192.0.2.4"}]]`, 1)

	a = s.send(t, http.MethodPost, "/v1/check", `{"domain":"shop","host":"key.example","headers":{"x-api-key":"secret-of-a-process"}}`, nil)
	if a.status != http.StatusOK || strings.Contains(fmt.Sprint(a, s.process.Log()), "secret-of-a-process") {
		t.Errorf("a request with an API key, which must not be in the response or the log: %+v", a)
	}

	remote, err := httplimit.NewRemote(s.http, httplimit.Timeout(patience))
	if err != nil {
		t.Fatal(err)
	}
	defer remote.Close()
	answer, err := remote.Check(t.Context(), &engine.Check{
		Request: rules.Request{Domain: "shop", Host: "tenant.example", Path: "/", Headers: map[string]string{"x-tenant-id": "acme"}}, Cost: 2,
	})
	if err != nil || !answer.Allowed {
		t.Errorf("a check of a Remote: %+v, %v", answer, err)
	}
	s.wantRemaining(t, `"host":"tenant.example","headers":{"x-tenant-id":"acme"}`, 1)
}

// usesTheProxyProtocol sends requests from the load balancer, which must use the PROXY protocol, and from other addresses, which must not.
func usesTheProxyProtocol(t *testing.T, s *serving) {
	for name, test := range map[string]struct{ from, preface, forwardedFor, counted string }{
		"an untrusted client behind the load balancer": {loadBalancer, "PROXY TCP4 192.0.2.20 127.0.0.1 4711 8080\r\n", "6.6.6.6", "192.0.2.20"},
		"a trusted proxy behind the load balancer":     {loadBalancer, "PROXY TCP4 10.0.0.20 127.0.0.1 4711 8080\r\n", "6.6.6.6, 192.0.2.21", "192.0.2.21"},
		"an IPv6 client behind the load balancer":      {loadBalancer, "PROXY TCP6 2001:db8:20::1 2001:db8::1 4711 8080\r\n", "6.6.6.6", "2001:db8:20::2"},
		"another trusted proxy, no protocol":           {"127.0.0.1", "", "192.0.2.22", "192.0.2.22"},
		"an untrusted address, no protocol":            {"127.0.0.3", "", "192.0.2.23", "127.0.0.3"},
	} {
		if status, text := sendForwarded(t, s, test.from, test.preface, test.forwardedFor); status != http.StatusOK {
			t.Errorf("%s: got status %d, want 200: %s", name, status, text)
		}
		s.wantRemaining(t, `"host":"ip.example","clientIP":"`+test.counted+`"`, 2)
	}
	if status, text := sendForwarded(t, s, "127.0.0.1", "PROXY TCP4 192.0.2.24 127.0.0.1 4711 8080\r\n", ""); status != http.StatusBadRequest {
		t.Errorf("the PROXY protocol from another address: got status %d, want 400: %s", status, text)
	}
	if status, text := sendForwarded(t, s, loadBalancer, "", ""); status == http.StatusOK {
		t.Errorf("the load balancer without the PROXY protocol: got status %d, want an error: %s", status, text)
	}
}

// sendForwarded sends a request to /v1/auth from an address of this machine. The status is 0 if there is no response.
func sendForwarded(t *testing.T, s *serving, from, preface, forwardedFor string) (statusCode int, text string) {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Deadline: time.Now().Add(patience)}
	conn, err := dialer.DialContext(t.Context(), "tcp", strings.TrimPrefix(s.http, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	_, err = io.WriteString(conn, preface+"GET /v1/auth/shop HTTP/1.1\r\nHost: weir\r\nConnection: close\r\nX-Forwarded-Method: GET\r\n"+
		"X-Forwarded-Uri: /\r\nX-Forwarded-Host: ip.example\r\nX-Forwarded-For: "+forwardedFor+"\r\n\r\n")
	if err != nil {
		return 0, err.Error()
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body)
}
