// Package proxies runs the configurations of docs/how-to/forward-auth.md unchanged: real proxies in front of a service, and real weir
// and Redis processes.
package proxies_test

import (
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/weir-dev/weir/test/fixture"
)

func TestForwardAuth_ProxiesEnforceAsDocumented(t *testing.T) {
	enforceAsDocumented(t, proxies()...)
}

// enforceAsDocumented runs each proxy as the document configures it: closed, and open if it can.
func enforceAsDocumented(t *testing.T, proxies ...proxy) {
	t.Helper()
	weir, err := fixture.BuildWeir(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range proxies {
		t.Run(p.name, func(t *testing.T) {
			t.Run("closed", func(t *testing.T) {
				w := newWorld(t, weir, p, false)
				checkLimits(w)
				checkResponseOfThePolicy(w, p.ownDenials)
				checkForgedRequests(w)
				checkRequestsOfUnusualForm(w)
				checkResponsesOfTheService(w)
				checkWithoutWeir(w, p.unavailable)
			})
			if p.closedOnly {
				return
			}
			t.Run("open", func(t *testing.T) {
				w := newWorld(t, weir, p, true)
				checkLimits(w)
				checkResponseOfThePolicy(w, p.ownDenials)
				checkRequestsOfUnusualForm(w)
				checkPolicyThatDenies(w)
				checkWithoutWeir(w, http.StatusOK)
			})
		})
	}
}

// checkLimits verifies that limits are enforced and shown to clients. Afterwards 127.0.0.1 has no units left for /v1/search.
func checkLimits(w *world) {
	w.Helper()
	for remaining := 1; remaining >= 0; remaining-- {
		a := w.send(http.MethodGet, "/v1/search?q=x%20y", "")
		if a.status != http.StatusOK || a.body != "GET /v1/search?q=x%20y " {
			w.Fatalf("allowed: %+v", a)
		}
		checkFields(w, a, remaining)
	}
	before := w.calls.Load()
	a := w.send(http.MethodGet, "/v1/search?q=x", "")
	if a.status != http.StatusTooManyRequests || !strings.Contains(a.body, "http-problem-types#quota-exceeded") ||
		a.header.Get("Content-Type") != "application/problem+json" {
		w.Errorf("denied: %+v", a)
	}
	checkFields(w, a, 0)
	if seconds, err := strconv.Atoi(a.header.Get("Retry-After")); err != nil || seconds < 3500 || seconds > 3600 {
		w.Errorf("Retry-After: %q", a.header.Get("Retry-After"))
	}
	if w.calls.Load() != before {
		w.Error("the service was called although the request was denied")
	}
	if a := w.send(http.MethodGet, "/v1/search", "", "from", "127.0.0.2"); a.status != http.StatusOK {
		w.Errorf("another client: %+v", a)
	}
	if a := w.send(http.MethodGet, "/free", ""); a.status != http.StatusOK || len(a.header["Ratelimit"]) > 0 {
		w.Errorf("a path without a limit: %+v", a)
	}
	if a := w.send(http.MethodPost, "/v1/orders", "an order", "X-Tenant-ID", "acme"); a.status != http.StatusOK || a.body != "POST /v1/orders an order" {
		w.Errorf("a request with a body: %+v", a)
	}
	if a := w.send(http.MethodPost, "/v1/orders", "an order", "X-Tenant-ID", "acme"); a.status != http.StatusTooManyRequests {
		w.Errorf("a second order: %+v", a)
	}
	if a := w.send(http.MethodGet, "/v1/orders", "", "X-Tenant-ID", "acme"); a.status != http.StatusOK {
		w.Errorf("another method: %+v", a)
	}
}

// checkResponseOfThePolicy verifies that clients get the response that a policy sets. A proxy that writes its own denials passes only headers
// on that its configuration names. A proxy that fails open must not take a status of 503 for an unavailable Weir.
func checkResponseOfThePolicy(w *world, ownDenials bool) {
	w.Helper()
	if a := w.send(http.MethodGet, "/v1/export", ""); a.status != http.StatusOK {
		w.Errorf("the first export: %+v", a)
	}
	before := w.calls.Load()
	a := w.send(http.MethodGet, "/v1/export", "")
	want := answer{http.StatusServiceUnavailable, http.Header{"Content-Type": {"application/json"}, "X-Plan": {"free"}}, `{"error":"export-quota"}`}
	if ownDenials {
		want.status, want.header, want.body = http.StatusTooManyRequests, http.Header{"Content-Type": {"application/problem+json"}}, a.body
	}
	if a.status != want.status || a.body != want.body || a.header.Get("Retry-After") == "" {
		w.Errorf("the second export: %+v", a)
	}
	for name := range want.header {
		if a.header.Get(name) != want.header.Get(name) {
			w.Errorf("the second export: %+v, want %s: %s", a, name, want.header.Get(name))
		}
	}
	if w.calls.Load() != before {
		w.Error("the service was called although the request was denied")
	}
}

func checkFields(w *world, a answer, remaining int) {
	w.Helper()
	if got, want := a.header.Get("Ratelimit"), `"shop/search";r=`+strconv.Itoa(remaining)+";t=3"; !strings.HasPrefix(got, want) {
		w.Errorf("RateLimit: %q, want %s…", got, want)
	}
	if got, want := a.header.Values("Ratelimit-Policy"), `"shop/search";q=2;w=3600`; len(got) != 1 || got[0] != want {
		w.Errorf("RateLimit-Policy: %q, want %s", got, want)
	}
}

// checkForgedRequests sends requests that a client without units may forge to evade its limit.
func checkForgedRequests(w *world) {
	w.Helper()
	before := w.calls.Load()
	for _, header := range [][]string{
		{"X-Forwarded-For", "198.51.100.1"},
		{"X-Forwarded-For", "198.51.100.1, 10.0.0.1", "X-Forwarded-For", "127.0.0.1"},
		{"Forwarded", "for=198.51.100.1"},
		{"X-Real-IP", "198.51.100.1"},
		{"X-Forwarded-Uri", "/free"},
		{"X-Forwarded-Method", "POST"},
		{"X-Forwarded-Host", "other.example"},
		{"X-Original-URI", "/free"},
		{"X-Original-URL", "http://other.example/free"},
		{"X-Original-Method", "POST"},
		{"X-Original-URI", "/free", "X-Original-Method", "GET", "X-Forwarded-Uri", "/free"},
	} {
		if a := w.send(http.MethodGet, "/v1/search", "", header...); a.status != http.StatusTooManyRequests {
			w.Errorf("with %q: %+v", header, a)
		}
	}
	for _, uri := range []string{
		"/v1/%73earch", "//v1/search", "/v1/./search", "/v1/x/../search", "/v1/x/%2e%2e/search", "/v1%2Fsearch", "/v1/search/", "/v1/search/a;b=c",
		"http://api.shop.example/v1/search", "http://api.shop.example//v1/search?q=x",
	} {
		if a := w.send(http.MethodGet, uri, ""); a.status != http.StatusTooManyRequests {
			w.Errorf("%s: %+v", uri, a)
		}
	}
	if a := w.send(http.MethodGet, "http://api.shop.example/v1/search", "", "host", "other.example"); a.status == http.StatusOK {
		w.Errorf("a host chosen by the client: %+v", a)
	}
	if w.calls.Load() != before {
		w.Error("the service was called")
	}
}

// checkRequestsOfUnusualForm sends requests that a client without units may form so that the proxy cannot send the call or read the response. A
// proxy that fails open would then admit the request, or the requests of all clients.
func checkRequestsOfUnusualForm(w *world) {
	w.Helper()
	if a := w.send(http.MethodGet, "/free", "", "without host", "HTTP/1.0"); a.status != http.StatusOK {
		w.Errorf("a request without a host: %+v", a)
	}
	before := w.calls.Load()
	if a := w.send(http.MethodGet, "/v1/endpoint05/;"+strings.Repeat("a", 4500), ""); a.status == http.StatusOK || !strings.Contains(a.header.Get("Ratelimit"), `"shop/search";r=0`) {
		w.Errorf("a request that all policies match: %+v", a)
	}
	line := func(n, size int) (header []string) {
		for i := range n {
			header = append(header, "X-"+strconv.Itoa(i), strings.Repeat("a", size))
		}
		return header
	}
	for _, form := range []struct{ lines, size int }{
		{50, 1},
		{85, 1},
		{93, 1},
		{98, 1},
		{110, 1},
		{1000, 1},
		{8000, 1},
		{3, 4000},
		{7, 2000},
		{59, 250},
		{60, 250},
		{61, 250},
		{62, 250},
		{63, 250},
		{8, 4000},
		{9, 4000},
		{25, 4000},
		{75, 4000},
		{225, 4000},
	} {
		if a, err := w.try(http.MethodGet, "/v1/search", "", line(form.lines, form.size)...); err == nil && a.status == http.StatusOK {
			w.Errorf("with %d lines of %d bytes: %+v", form.lines, form.size, a)
		}
		if a := w.send(http.MethodGet, "/v1/search", ""); a.status != http.StatusTooManyRequests {
			w.Errorf("after a request with %d lines of %d bytes: %+v", form.lines, form.size, a)
		}
	}
	if a := w.send(http.MethodGet, "/v1/search", "", line(50, 20)...); a.status != http.StatusTooManyRequests {
		w.Errorf("with as many lines as a browser may send: %+v", a)
	}
	if w.calls.Load() != before {
		w.Error("the service was called")
	}
}

// checkResponsesOfTheService verifies that the proxy passes on responses of the service with any status.
func checkResponsesOfTheService(w *world) {
	w.Helper()
	for path, status := range map[string]int{"/forbidden": http.StatusForbidden, "/broken": http.StatusInternalServerError} {
		if a := w.send(http.MethodGet, path, ""); a.status != status || a.body != "GET "+path+" " {
			w.Errorf("%s: %+v", path, a)
		}
	}
}

// checkPolicyThatDenies verifies that a proxy that fails open still denies what Weir denies because Redis is unavailable.
func checkPolicyThatDenies(w *world) {
	w.Helper()
	if a := w.send(http.MethodGet, "/v1/bank", ""); a.status != http.StatusOK {
		w.Errorf("while Redis is available: %+v", a)
	}
	if err := w.redis.Stop(); err != nil {
		w.Fatal(err)
	}
	before := w.calls.Load()
	if a := w.send(http.MethodGet, "/v1/bank", ""); a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") != "1" {
		w.Errorf("while Redis is unavailable: %+v", a)
	}
	if w.calls.Load() != before {
		w.Error("the service was called without a decision")
	}
}

// checkWithoutWeir stops Weir and verifies that clients get the status.
func checkWithoutWeir(w *world, status int) {
	w.Helper()
	if err := w.weir.Stop(); err != nil {
		w.Fatal(err)
	}
	before := w.calls.Load()
	for _, path := range []string{"/v1/search", "/free"} {
		if a := w.send(http.MethodGet, path, ""); a.status != status {
			w.Errorf("while Weir is unavailable, %s: %+v, want %d", path, a, status)
		}
	}
	if called := w.calls.Load() != before; called != (status == http.StatusOK) {
		w.Errorf("while Weir is unavailable: service called: %v", called)
	}
}
