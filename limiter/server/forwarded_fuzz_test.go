package server

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/reading"
)

func sameAddress(a, b netip.Addr) bool { return a == b }

// FuzzAuthRequest describes one request in the headers of Traefik, in the headers of nginx and in the body of a check. All three
// must read the same request, and its path must be the path that net/url reads from the URL. An identifier is therefore the same
// through every endpoint, and no spelling leads to another one.
func FuzzAuthRequest(f *testing.F) {
	for _, seed := range []string{
		"/v1/search?q=x", "//v1/%2e%2e/a%2Fb;c=d?x=1;y=2&z=%zz", "http://evil/v1", "*", "", "?", "/%00%zz/é", "/a#b?c", "/a?b#c", "https://", "/..", "\\", "http://a?b/c", "http:", "http:/v1/search",
	} {
		f.Add("GET", "api.shop.example:80", seed)
	}
	f.Fuzz(func(t *testing.T, method, host, uri string) {
		if method == "" || host == "" || uri == "" || !utf8.ValidString(method) || !utf8.ValidString(host) || !utf8.ValidString(uri) {
			return
		}
		traefik := readBack(t, http.Header{"X-Forwarded-Method": {method}, "X-Forwarded-Uri": {uri}, "X-Forwarded-Host": {host}}, "weir")
		nginx := readBack(t, http.Header{"X-Original-Method": {method}, "X-Original-Uri": {uri}}, host)
		if traefik != nil && nginx != nil { // nil if the host header has several hosts
			equal(t, "nginx", *traefik, *nginx)
		}
		if nginx == nil {
			t.Fatalf("rejected %q", uri)
		}
		_, inner, absolute := splitAbsolute(uri)
		if !absolute {
			inner = uri
		}
		if inner == "" {
			inner = "/" // an empty path in a check means no path
		}
		if checked := check(t, method, host, inner); checked != nil {
			equal(t, "check", *nginx, *checked)
		}
		u, err := url.ParseRequestURI(uri)
		if err != nil || u.Opaque != "" || u.Scheme != "" && u.Scheme != "http" && u.Scheme != "https" {
			return
		}
		// Only net/url treats the text after a # as a part of the path.
		if want := reading.NormalPath(u.EscapedPath()); nginx.Path != want && !strings.Contains(uri, "#") {
			t.Fatalf("path of %q: %q, net/url %q", uri, nginx.Path, want)
		}
	})
}

// readBack returns the request that the headers of a proxy describe, nil if they are rejected.
func readBack(t *testing.T, h http.Header, host string) *rules.Request {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, "/v1/auth/shop", nil)
	r.Header, r.Host = h, host
	request, bad := forwardedRequest(r)
	if bad != nil {
		return nil
	}
	request.Headers = nil
	return &request
}

// check returns the same request as POST /v1/check reads it, nil if it has no field to count by.
func check(t *testing.T, method, host, path string) *rules.Request {
	t.Helper()
	body, err := json.Marshal(map[string]string{"domain": "shop", "method": method, "host": host, "path": path})
	if err != nil {
		t.Fatal(err)
	}
	c, _, bad := decode(body)
	if bad != nil {
		return nil
	}
	c.Request.Domain = ""
	return &c.Request
}

func equal(t *testing.T, endpoint string, want, got rules.Request) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmp.Comparer(sameAddress), cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("%s reads a different request (-want +got):\n%s", endpoint, diff)
	}
}
