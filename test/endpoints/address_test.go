package endpoints_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/weir-dev/weir/test/fixture"
)

// addressPolicy admits three requests of an address.
const addressPolicy = `
apiVersion: weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: addresses, namespace: shop}
spec: {axis: IP, limit: 3, window: 1h, algorithm: SlidingWindowLog, match: {http: {paths: [{value: /}]}}}
`

// edgeLimiter runs `weir serve` with addressPolicy and a gRPC socket until the test ends.
func edgeLimiter(t *testing.T, weir string, flags ...string) authv3.AuthorizationClient {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "addresses.yaml"), []byte(addressPolicy), 0o600); err != nil {
		t.Fatal(err)
	}
	s := &serving{process: fixture.Weir(t, weir, append([]string{
		"serve", "--policies", dir, "--listen", "127.0.0.1:0", "--grpc-listen", "127.0.0.1:0", "--ops-listen", "127.0.0.1:0",
	}, flags...)...)}
	s.rpc = s.waitForLog(t, `gRPC for Envoy at (127\.0\.0\.1:[0-9]+)`)
	s.ops = s.waitForLog(t, `probes at (http://127\.0\.0\.1:[0-9]+)\n`)
	if err := fixture.WaitHTTP(t.Context(), s.ops+"/readyz", http.StatusOK); err != nil {
		t.Fatal(err)
	}
	conn, err := grpc.NewClient(s.rpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() }) // all calls have ended
	return authv3.NewAuthorizationClient(conn)
}

// authorize sends the call of an Envoy for a request that it received from source, and reports whether the request is allowed.
func authorize(t *testing.T, client authv3.AuthorizationClient, source string, headers map[string]string) bool {
	t.Helper()
	answer, err := client.Check(t.Context(), &authv3.CheckRequest{Attributes: &authv3.AttributeContext{
		ContextExtensions: map[string]string{"domain": "shop"},
		Source: &authv3.AttributeContext_Peer{Address: &corev3.Address{Address: &corev3.Address_SocketAddress{
			SocketAddress: &corev3.SocketAddress{Address: source},
		}}},
		Request: &authv3.AttributeContext_Request{Http: &authv3.AttributeContext_HttpRequest{
			Method: "GET", Host: "shop.example", Path: "/", Headers: headers,
		}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return answer.GetOkResponse() != nil
}

// allowedOf sends ten requests of one client, each with another value in a header, and returns how many are allowed.
func allowedOf(t *testing.T, client authv3.AuthorizationClient, source, header, form string) (allowed int) {
	t.Helper()
	for i := range 10 {
		if authorize(t, client, source, map[string]string{header: fmt.Sprintf(form, i)}) {
			allowed++
		}
	}
	return allowed
}

// An Envoy that faces the clients appends to X-Forwarded-For only with use_remote_address. Without it, the whole header is the client's.
func TestServe_ExtAuthzClientsCannotChooseTheirAddress(t *testing.T) {
	t.Cleanup(http.DefaultClient.CloseIdleConnections) // fixture.WaitHTTP uses the default client
	weir, err := fixture.BuildWeir(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		flags                []string
		source, header, form string
		allowed              int
	}{
		"no proxies":                         {nil, "203.0.113.7", "x-forwarded-for", "198.51.100.%d", 3},
		"no proxies, Forwarded":              {[]string{"--client-address-header=Forwarded"}, "203.0.113.7", "forwarded", "for=198.51.100.%d", 3},
		"proxies, a client connects":         {[]string{"--trusted-proxies=10.0.0.0/8"}, "203.0.113.7", "x-forwarded-for", "198.51.100.%d", 3},
		"proxies, a client claims one":       {[]string{"--trusted-proxies=10.0.0.0/8"}, "203.0.113.7", "x-forwarded-for", "198.51.100.%d, 10.0.0.1", 3},
		"a client behind a proxy":            {[]string{"--trusted-proxies=10.0.0.0/8"}, "10.0.0.9", "x-forwarded-for", "198.51.100.%d, 203.0.113.8", 3},
		"ten clients behind a proxy":         {[]string{"--trusted-proxies=10.0.0.0/8"}, "10.0.0.9", "x-forwarded-for", "198.51.100.%d", 10},
		"ten clients, and Envoy appends too": {[]string{"--trusted-proxies=10.0.0.0/8"}, "10.0.0.9", "x-forwarded-for", "198.51.100.%d, 10.0.0.9", 10},
	} {
		t.Run(name, func(t *testing.T) {
			client := edgeLimiter(t, weir, test.flags...)
			if got := allowedOf(t, client, test.source, test.header, test.form); got != test.allowed {
				t.Errorf("%d of 10 requests are allowed, want %d", got, test.allowed)
			}
		})
	}
}
