//go:build gateways

package gateways_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

// The page promises: five requests to /login pass, and the sixth does not. Both filters are in use.
func TestEnvoy_EnforcesAsDocumented(t *testing.T) {
	for name, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, documentedPolicies(t), documentedConfig)
			client := clientOf(t, http2)
			send := func(path string) answer {
				a := getBy(t, client, "http://"+w.front+path, "x-tenant-id", "acme")
				if want := map[bool]int{false: 1, true: 2}[http2]; a.major != want {
					t.Fatalf("%s: HTTP/%d", path, a.major)
				}
				return a
			}
			for i := range 5 {
				if a := send("/login"); a.status != http.StatusOK || a.body != "GET /login" {
					t.Fatalf("request %d: %+v", i+1, a)
				}
			}
			w.deniesByRLS(t, send("/login?sixth"))
			w.deniesByRLS(t, send("/login?seventh")) // a known denial
			w.deniesByExtAuthz(t, send)
			if called := w.calls.Load(); called != 35 {
				t.Errorf("the service has received %d requests, want 5 + 30", called)
			}
		})
	}
}

// deniesByRLS checks the denial of a request to /login after five that passed.
func (w *world) deniesByRLS(t *testing.T, a answer) {
	t.Helper()
	if a.status != http.StatusTooManyRequests || a.header.Get("Content-Type") != "application/problem+json" ||
		!strings.Contains(a.body, `"violated-policies":["shop/envoy-login"]`) {
		t.Errorf("%+v", a)
	}
	if seconds, err := strconv.Atoi(a.header.Get("Retry-After")); err != nil || seconds < 30 || seconds > 60 {
		t.Errorf("Retry-After: %q", a.header.Values("Retry-After"))
	}
	// The first is the policy that denies. The other one allowed the request in the filter before.
	wantFields(t, a, "RateLimit", `"shop/envoy-login";r=0;t=`, `"shop/free-plan";r=99`)
	wantFields(t, a, "RateLimit-Policy", `"shop/envoy-login";q=5;w=60`, `"shop/free-plan";q=1000;w=86400`)
	if got := w.remaining(t, map[string]any{"descriptors": []any{
		[]any{map[string]string{"key": "generic_key", "value": "login"}, map[string]string{"key": "remote_address", "value": "127.0.0.1"}},
	}}); got != 0 {
		t.Errorf("Weir has %d units left for /login", got)
	}
}

// deniesByExtAuthz uses up the limit of /v1/search, and checks the denial and the access log.
func (w *world) deniesByExtAuthz(t *testing.T, send func(path string) answer) {
	t.Helper()
	for i := range 30 {
		a := send(fmt.Sprintf("/v1/search?%d", i))
		if a.status != http.StatusOK {
			t.Fatalf("search %d: %+v", i+1, a)
		}
		wantFields(t, a, "RateLimit", fmt.Sprintf(`"shop/search";r=%d;t=`, 29-i))
	}
	a := send("/v1/search?denied")
	if a.status != http.StatusTooManyRequests || a.header.Get("Content-Type") != "application/problem+json" ||
		!strings.Contains(a.body, `"violated-policies":["shop/search"]`) || a.header.Get("Retry-After") == "" {
		t.Errorf("%+v", a)
	}
	wantFields(t, a, "RateLimit", `"shop/search";r=0;t=`)
	if got := w.remaining(t, map[string]any{"host": "x", "path": "/v1/search", "headers": map[string]string{"x-tenant-id": "acme"}}); got != 0 {
		t.Errorf("Weir has %d units left for /v1/search", got)
	}
	line := w.envoy.lastAccess(t, "/v1/search?denied")
	if got := line.Auth.results(); line.Status != 429 || !strings.HasPrefix(got, "shop/search=OVER_LIMIT") {
		t.Errorf("%+v", line)
	}
	line = w.envoy.lastAccess(t, "/login?sixth")
	if line.Status != 429 || line.Auth.results() != "shop/free-plan=OK" || line.Limits.results() != "shop/envoy-login=OVER_LIMIT" ||
		line.Limits.Source != "redis" || !strings.HasPrefix(line.Limits.Revision, "sha256:") {
		t.Errorf("%+v", line)
	}
	if line = w.envoy.lastAccess(t, "/login?seventh"); line.Limits.Source != "cache" {
		t.Errorf("%+v", line)
	}
}

// wantFields checks that the list in a header field has the members with these beginnings, in this order, and possibly more.
func wantFields(t *testing.T, a answer, name string, beginnings ...string) {
	t.Helper()
	got := strings.Join(a.header.Values(name), ", ")
	for i, member := range strings.Split(got, ", ") {
		if i < len(beginnings) && !strings.HasPrefix(member, beginnings[i]) {
			t.Errorf("%s: %s, want %q", name, got, beginnings)
			return
		}
	}
	if strings.Count(got, ", ")+1 < len(beginnings) {
		t.Errorf("%s: %s, want %q", name, got, beginnings)
	}
}

func TestEnvoy_DecidesSeveralDescriptorsTogether(t *testing.T) {
	const policies = `
apiVersion: weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: tenant, namespace: shop}
spec: {axis: Tenant, limit: 2, window: 1h, identifier: {descriptor: tenant}, match: {descriptors: [{key: tenant}]}}
---
apiVersion: weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: all, namespace: shop}
spec: {axis: Tenant, limit: 3, window: 1h, identifier: {descriptor: generic_key}, match: {descriptors: [{key: generic_key, value: all}]}}
`
	w := newWorld(t, policies, func(t *testing.T, p places) string {
		t.Helper()
		return replace(t, documentedConfig(t, p), "descriptor_key: tenant}\n", `descriptor_key: tenant}
                  - actions:
                    - generic_key: {descriptor_value: all}
`)
	})
	for _, request := range []struct{ tenant, want string }{
		{"acme", "OK"},
		{"acme", "OK"},
		{"acme", "Too Many Requests"}, // by tenant: uses up nothing of all
		{"acme", "Too Many Requests"},
		{"beta", "OK"},
		{"beta", "Too Many Requests"}, // by all
	} {
		if got := w.statuses(t, 1, "/", "x-tenant-id", request.tenant); got != request.want {
			t.Errorf("%+v: %s", request, got)
		}
	}
	tenant := func(name string) map[string]any {
		return map[string]any{"descriptors": []any{[]any{map[string]string{"key": "tenant", "value": name}}}}
	}
	if acme, beta := w.remaining(t, tenant("acme")), w.remaining(t, tenant("beta")); acme != 0 || beta != 1 {
		t.Errorf("Weir has %d and %d units left, want 0 and 1", acme, beta)
	}
}
