//go:build gateways

package gateways_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// addressPolicies count by the address of the client: ext_authz on /auth, RLS on /login.
const addressPolicies = `
apiVersion: weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: auth, namespace: shop}
spec: {axis: IP, limit: 1, window: 1h, match: {http: {paths: [{type: PathPrefix, value: /auth}]}}}
---
apiVersion: weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: rls, namespace: shop}
spec:
  axis: IP
  limit: 1
  window: 1h
  identifier: {descriptor: remote_address}
  match: {descriptors: [{key: generic_key, value: login}, {key: remote_address}]}
`

// forged are headers with which a client claims to be another one.
var forged = [][]string{
	{"X-Forwarded-For", "198.51.100.1"},
	{"X-Forwarded-For", "198.51.100.2, 127.0.0.1"},
	{"X-Forwarded-For", "198.51.100.3", "X-Forwarded-For", "198.51.100.4"},
	{"Forwarded", "for=198.51.100.5"},
	{"X-Real-Ip", "198.51.100.6"},
	{"X-Envoy-External-Address", "198.51.100.7"},
	{"X-Envoy-Internal", "true", "X-Forwarded-For", "198.51.100.8"},
}

func TestEnvoy_AClientCannotChooseItsAddress(t *testing.T) {
	w := newWorld(t, addressPolicies, documentedConfig)
	for _, path := range []string{"/auth", "/login"} {
		if a := w.sendFrom(t, "127.0.0.1", path); a.status != http.StatusOK {
			t.Fatalf("%s: %+v", path, a)
		}
		for _, headers := range forged {
			if a := w.sendFrom(t, "127.0.0.1", path, headers...); a.status != http.StatusTooManyRequests {
				t.Errorf("%s with %q: %d", path, headers, a.status)
			}
		}
		if a := w.sendFrom(t, "127.0.0.2", path); a.status != http.StatusOK {
			t.Errorf("%s, another client: %+v", path, a)
		}
	}
}

// Without use_remote_address, Envoy takes remote_address of RLS from the header of the client: the page warns of it. ext_authz does not.
func TestEnvoy_WithoutUseRemoteAddressOnlyExtAuthzKnowsTheClient(t *testing.T) {
	w := newWorld(t, addressPolicies, func(t *testing.T, p places) string {
		t.Helper()
		return replace(t, documentedConfig(t, p), "use_remote_address: true\n", "use_remote_address: false\n")
	})
	for path, forgedStatus := range map[string]int{"/auth": http.StatusTooManyRequests, "/login": http.StatusOK} {
		if a := w.sendFrom(t, "127.0.0.1", path); a.status != http.StatusOK {
			t.Fatalf("%s: %+v", path, a)
		}
		if a := w.sendFrom(t, "127.0.0.1", path, "X-Forwarded-For", "198.51.100.1"); a.status != forgedStatus {
			t.Errorf("%s with another address: %d, want %d", path, a.status, forgedStatus)
		}
	}
}

// A load balancer at 127.0.0.2 adds the client to X-Forwarded-For. What the client wrote before does not count.
func TestEnvoy_BehindALoadBalancerCountsTheAddressThatItReports(t *testing.T) {
	config := func(t *testing.T, p places) string {
		t.Helper()
		return replace(t, documentedConfig(t, p), "use_remote_address: true\n", "use_remote_address: true\n          xff_num_trusted_hops: 1\n")
	}
	t.Run("listed", func(t *testing.T) {
		w := newWorld(t, addressPolicies, config, "--trusted-proxies", "127.0.0.2")
		for _, path := range []string{"/auth", "/login"} {
			for _, request := range []struct {
				forwarded string
				want      int
			}{
				{"203.0.113.1", http.StatusOK},
				{"203.0.113.1", http.StatusTooManyRequests},
				{"198.51.100.1, 203.0.113.1", http.StatusTooManyRequests},
				{"203.0.113.2", http.StatusOK},
			} {
				if a := w.sendFrom(t, "127.0.0.2", path, "X-Forwarded-For", request.forwarded); a.status != request.want {
					t.Errorf("%s, %+v: %d", path, request, a.status)
				}
			}
		}
	})
	t.Run("not listed", func(t *testing.T) { // ext_authz counts all clients as the load balancer
		w := newWorld(t, addressPolicies, config)
		if a := w.sendFrom(t, "127.0.0.2", "/auth", "X-Forwarded-For", "203.0.113.1"); a.status != http.StatusOK {
			t.Errorf("%+v", a)
		}
		if a := w.sendFrom(t, "127.0.0.2", "/auth", "X-Forwarded-For", "203.0.113.2"); a.status != http.StatusTooManyRequests {
			t.Errorf("%+v", a)
		}
	})
}

// With the PROXY protocol, the peer of Envoy is the address that the load balancer names.
func TestEnvoy_CountsTheAddressOfThePROXYProtocol(t *testing.T) {
	w := newWorld(t, addressPolicies, func(t *testing.T, p places) string {
		t.Helper()
		return replace(t, documentedConfig(t, p), "    filter_chains:\n", `    listener_filters:
    - name: envoy.filters.listener.proxy_protocol
      typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.listener.proxy_protocol.v3.ProxyProtocol}
    filter_chains:
`)
	})
	from := func(client, path string, headers ...string) int {
		return w.sendAfter(t, "127.0.0.1", "PROXY TCP4 "+client+" 127.0.0.1 5000 80\r\n", path, headers...).status
	}
	for _, path := range []string{"/auth", "/login"} {
		for _, request := range []struct {
			client  string
			headers []string
			want    int
		}{
			{"203.0.113.1", nil, http.StatusOK},
			{"203.0.113.1", nil, http.StatusTooManyRequests},
			{"203.0.113.1", forged[0], http.StatusTooManyRequests},
			{"203.0.113.2", nil, http.StatusOK},
		} {
			if got := from(request.client, path, request.headers...); got != request.want {
				t.Errorf("%s, %+v: %d", path, request, got)
			}
		}
	}
}

func (w *world) sendFrom(t *testing.T, from, path string, headers ...string) answer {
	t.Helper()
	return w.sendAfter(t, from, "", path, headers...)
}

// sendAfter sends a GET request on a connection of its own from this address, after a preamble. It sends the headers unchanged, which
// net/http would not do.
func (w *world) sendAfter(t *testing.T, from, preamble, path string, headers ...string) answer {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Deadline: time.Now().Add(patience)}
	c, err := dialer.DialContext(t.Context(), "tcp", w.front)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	var lines strings.Builder
	for i := 0; i < len(headers); i += 2 {
		lines.WriteString(headers[i] + ": " + headers[i+1] + "\r\n")
	}
	if _, err := io.WriteString(c, preamble+"GET "+path+" HTTP/1.1\r\nHost: shop.example\r\nConnection: close\r\n"+lines.String()+"\r\n"); err != nil {
		t.Fatal(err)
	}
	response, err := http.ReadResponse(bufio.NewReader(c), nil)
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
