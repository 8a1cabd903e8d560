package server

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/memstore"
	"github.com/weir-dev/weir/limiter/reply"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/server/address"
)

// newHandlerWith returns the handler for e with options of the test.
func newHandlerWith(t testing.TB, e *engine.Engine, change func(*Options)) http.Handler {
	t.Helper()
	o := Options{Engine: e, Style: reply.RateLimitHeaders, Metrics: NewMetrics(prometheus.NewRegistry()), Log: discard()}
	change(&o)
	return NewHandler(o)
}

// authRequest returns the call of a proxy for GET https://api.shop.example/v1/search of tenant acme.
func authRequest(target string, more http.Header) *http.Request {
	r := httptest.NewRequest(http.MethodGet, target, nil)
	r.Header = http.Header{
		"X-Forwarded-Method": {"GET"}, "X-Forwarded-Uri": {"/v1/search"}, "X-Forwarded-Host": {"api.shop.example"},
		"X-Forwarded-For": {"203.0.113.7"}, "X-Tenant-Id": {"acme"},
	}
	for name, values := range more {
		r.Header[name] = values
		if values == nil {
			delete(r.Header, name)
		}
	}
	return r
}

func call(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestAuth_AllowsAndDenies(t *testing.T) {
	denied := `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Quota Exceeded","status":429,
	  "detail":"over the limit of shop/a; retry in 60 s","violated-policies":["shop/a"]}`
	limits := func(more http.Header) http.Header {
		h := http.Header{"RateLimit-Policy": {`"shop/a";q=1;w=60`}, "RateLimit": {`"shop/a";r=0;t=60`}}
		maps.Copy(h, more)
		return h
	}
	problem := http.Header{"Content-Type": {"application/problem+json"}, "Retry-After": {"60"}, "X-Weir-Decision": {"denied"}}
	tests := map[string]struct {
		target string
		times  int
		status int
		header http.Header
		body   string
	}{
		"allowed":                            {"/v1/auth/shop", 1, http.StatusOK, limits(nil), ""},
		"denied":                             {"/v1/auth/shop", 2, http.StatusTooManyRequests, limits(problem), denied},
		"denied for nginx":                   {"/v1/auth/shop?deny=403", 2, http.StatusForbidden, limits(problem), strings.Replace(denied, "429", "403", 1)},
		"denied with 401":                    {"/v1/auth/shop?deny=401", 2, http.StatusUnauthorized, limits(problem), strings.Replace(denied, "429", "401", 1)},
		"denied with 429":                    {"/v1/auth/shop?deny=429", 2, http.StatusTooManyRequests, limits(problem), denied},
		"no policy applies to the domain":    {"/v1/auth/bank", 2, http.StatusOK, http.Header{}, ""},
		"an escaped domain is the same":      {"/v1/auth/sh%6fp", 2, http.StatusTooManyRequests, limits(problem), denied},
		"deny does not affect allowed calls": {"/v1/auth/shop?deny=403", 1, http.StatusOK, limits(nil), ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			h := newHandler(t, newEngine(t, atNoon(), tenantRule("a", 1)))
			var w *httptest.ResponseRecorder
			for range test.times {
				w = call(h, authRequest(test.target, nil))
			}
			if w.Code != test.status {
				t.Errorf("status %d, want %d", w.Code, test.status)
			}
			if diff := cmp.Diff(test.header, w.Header()); diff != "" {
				t.Errorf("headers (-want +got):\n%s", diff)
			}
			want := ""
			if test.body != "" {
				want = compact(t, test.body)
			}
			if diff := cmp.Diff(want, w.Body.String()); diff != "" {
				t.Errorf("body (-want +got):\n%s", diff)
			}
		})
	}
}

// A client that leaves out its identifier learns what to send, and does not use up the units of the others.
func TestAuth_RequestsWithoutAnIdentifier(t *testing.T) {
	anonymous := http.Header{"X-Tenant-Id": nil}
	from := func(address string) http.Header { return http.Header{"X-Tenant-Id": nil, "X-Forwarded-For": {address}} }
	byAddress, denies, skips := tenantRule("a", 1), tenantRule("a", 1), tenantRule("a", 1)
	byAddress.Fallbacks = []rules.Identifier{{From: rules.FromClientIP}}
	denies.OnMissing, skips.OnMissing = rules.DenyMissing, rules.SkipMissing
	t.Run("each client has a counter", func(t *testing.T) {
		h := newHandler(t, newEngine(t, atNoon(), byAddress))
		for i, want := range []int{http.StatusOK, http.StatusTooManyRequests} {
			if w := call(h, authRequest("/v1/auth/shop", from("203.0.113.7"))); w.Code != want {
				t.Errorf("request %d of a client: status %d, want %d", i, w.Code, want)
			}
		}
		if w := call(h, authRequest("/v1/auth/shop", from("203.0.113.8"))); w.Code != http.StatusOK {
			t.Errorf("another client: status %d", w.Code)
		}
	})
	t.Run("denied", func(t *testing.T) {
		w := call(newHandler(t, newEngine(t, atNoon(), denies)), authRequest("/v1/auth/shop", anonymous))
		const detail = `"detail":"policy shop/a denies requests without an identifier; send the header x-tenant-id"`
		if w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") != "" || !strings.Contains(w.Body.String(), detail) {
			t.Errorf("status %d, headers %v, body %s", w.Code, w.Header(), w.Body)
		}
	})
	t.Run("skipped", func(t *testing.T) {
		h := newHandler(t, newEngine(t, atNoon(), skips))
		for range 3 {
			if w := call(h, authRequest("/v1/auth/shop", anonymous)); w.Code != http.StatusOK || len(w.Header()) != 0 {
				t.Errorf("status %d, headers %v", w.Code, w.Header())
			}
		}
	})
}

// A proxy that understands only some statuses names one of them: it would turn another one into an error of the server.
func TestAuth_DeniesWithTheResponseOfThePolicy(t *testing.T) {
	for target, want := range map[string]int{
		"/v1/auth/shop": 402, "/v1/auth/shop?deny=429": 402, "/v1/auth/shop?deny=403": 403, "/v1/auth/shop?deny=401": 401,
	} {
		rule := tenantRule("a", 1)
		rule.Denial = &rules.Denial{Status: 402, Message: "buy more", Headers: []rules.DenialHeader{{Name: "x-plan", Value: "free"}}}
		h := newHandler(t, newEngine(t, atNoon(), rule))
		call(h, authRequest(target, nil))
		w := call(h, authRequest(target, nil))
		header := http.Header{
			"RateLimit-Policy": {`"shop/a";q=1;w=60`}, "RateLimit": {`"shop/a";r=0;t=60`}, "Retry-After": {"60"},
			"Content-Type": {"text/plain; charset=utf-8"}, "X-Plan": {"free"}, "Cache-Control": {"no-store"}, "X-Weir-Decision": {"denied"},
		}
		if diff := cmp.Diff(header, w.Header()); w.Code != want || w.Body.String() != "buy more" || diff != "" {
			t.Errorf("%s: status %d, want %d, body %q, headers (-want +got):\n%s", target, w.Code, want, w.Body, diff)
		}
	}
}

func TestAuth_AcceptsAnyMethodAndDoesNotReadTheBody(t *testing.T) {
	h := newHandler(t, newEngine(t, atNoon(), tenantRule("a", 9)))
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodDelete, "PURGE"} {
		r := authRequest("/v1/auth/shop", nil)
		body := &countingReader{}
		r.Method, r.Body = method, io.NopCloser(body)
		if w := call(h, r); w.Code != http.StatusOK || w.Body.Len() != 0 || body.read != 0 {
			t.Errorf("%s: status %d, body %q, %d reads", method, w.Code, w.Body, body.read)
		}
	}
}

// countingReader is an endless body.
type countingReader struct{ read int }

func (r *countingReader) Read(p []byte) (int, error) {
	r.read++
	return len(p), nil
}

func TestAuth_RejectsInvalidRequests(t *testing.T) {
	const both = "X-Original-Uri and X-Forwarded-Uri are both present, and only one can come from the proxy: " +
		"configure the proxy to remove the headers that it does not set"
	none := http.Header{"X-Forwarded-Method": nil, "X-Forwarded-Uri": nil}
	tests := map[string]struct {
		target        string
		header        http.Header
		field, detail string
	}{
		"another status":          {"/v1/auth/shop?deny=500", nil, "deny", "deny must be 401, 403 or 429, not 500"},
		"an empty status":         {"/v1/auth/shop?deny=", nil, "deny", "deny must be 401, 403 or 429, not "},
		"two statuses":            {"/v1/auth/shop?deny=403&deny=403", nil, "deny", "deny is present more than once"},
		"another parameter":       {"/v1/auth/shop?denied=403", nil, "denied", "denied is not a parameter of /v1/auth; the only parameter is deny"},
		"an invalid query":        {"/v1/auth/shop?deny=4%zz", nil, "query", "query is malformed"},
		"an endless domain":       {"/v1/auth/" + strings.Repeat("a", 254), nil, "domain", "domain is longer than 253 bytes"},
		"no request headers":      {"/v1/auth/shop", none, "X-Forwarded-Uri", "X-Forwarded-Uri is missing: configure the proxy to describe the original request in this header"},
		"no method":               {"/v1/auth/shop", http.Header{"X-Forwarded-Method": nil}, "X-Forwarded-Method", "X-Forwarded-Method is missing: configure the proxy to describe the original request in this header"},
		"an URI twice":            {"/v1/auth/shop", http.Header{"X-Forwarded-Uri": {"/a", "/b"}}, "X-Forwarded-Uri", "X-Forwarded-Uri is present more than once: configure the proxy to replace the header of the client"},
		"a host twice":            {"/v1/auth/shop", http.Header{"X-Forwarded-Host": {"a", "b"}}, "X-Forwarded-Host", "X-Forwarded-Host is present more than once: configure the proxy to replace the header of the client"},
		"several hosts":           {"/v1/auth/shop", http.Header{"X-Forwarded-Host": {"a, b"}}, "X-Forwarded-Host", "X-Forwarded-Host contains more than one host"},
		"both families":           {"/v1/auth/shop", http.Header{"X-Original-Uri": {"/v1/search"}}, "X-Original-Uri", both},
		"another family's method": {"/v1/auth/shop", http.Header{"X-Original-Method": {"GET"}}, "X-Original-Uri", both},
		"another family's URL":    {"/v1/auth/shop", http.Header{"X-Original-Url": {"http://a/"}}, "X-Original-Uri", both},
		"nginx without a method":  {"/v1/auth/shop", http.Header{"X-Forwarded-Method": nil, "X-Forwarded-Uri": nil, "X-Original-Uri": {"/"}}, "X-Original-Method", "X-Original-Method is missing: configure the proxy to describe the original request in this header"},
		"nginx without an URI":    {"/v1/auth/shop", http.Header{"X-Forwarded-Method": nil, "X-Forwarded-Uri": nil, "X-Original-Method": {"GET"}}, "X-Original-Uri", "X-Original-Uri is missing: configure the proxy to describe the original request in this header"},
		"nginx with both":         {"/v1/auth/shop", http.Header{"X-Forwarded-Method": nil, "X-Forwarded-Uri": nil, "X-Original-Method": {"GET"}, "X-Original-Uri": {"/"}, "X-Original-Url": {"http://a/"}}, "X-Original-Uri", "X-Original-Uri and X-Original-Url are both present: configure the proxy to set one and remove the other"},
		"claims twice":            {"/v1/auth/shop", http.Header{"X-Jwt-Payload": {"{}", "{}"}}, "X-Jwt-Payload", "X-Jwt-Payload is present more than once: configure the proxy to replace the header of the client"},
		"a whole token":           {"/v1/auth/shop", http.Header{"X-Jwt-Payload": {"e30.e30.x"}}, "X-Jwt-Payload", "X-Jwt-Payload must be a JSON object, plain or in base64: send only the payload of the token, not the whole token"},
		"half of the claims":      {"/v1/auth/shop", http.Header{"X-Jwt-Payload": {`{"sub":`}}, "X-Jwt-Payload", "X-Jwt-Payload does not contain valid JSON"},
		"a list of claims":        {"/v1/auth/shop", http.Header{"X-Jwt-Payload": {"W10"}}, "X-Jwt-Payload", "X-Jwt-Payload must be an object, not a list"},
		"a claim twice":           {"/v1/auth/shop", http.Header{"X-Jwt-Payload": {`{"a":1,"a":2}`}}, "X-Jwt-Payload.a", "X-Jwt-Payload.a is present more than once"},
	}
	h := newHandlerWith(t, newEngine(t, atNoon(), tenantRule("a", 1)), func(o *Options) { o.ClaimsHeader = "X-JWT-Payload" })
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w := call(h, authRequest(test.target, test.header))
			var got reply.Problem
			if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
				t.Fatalf("%v in %s", err, w.Body)
			}
			want := reply.Problem{Type: "about:blank", Title: "Bad Request", Status: 400, Field: test.field, Detail: test.detail}
			if diff := cmp.Diff(want, got); diff != "" || w.Code != http.StatusBadRequest {
				t.Errorf("status %d, problem (-want +got):\n%s", w.Code, diff)
			}
		})
	}
	for _, target := range []string{"/v1/auth/", "/v1/auth", "/v1/auth/shop/", "/v1/auth/sh%2Fop"} {
		if w := call(h, authRequest(target, nil)); w.Code != http.StatusNotFound {
			t.Errorf("%s: status %d", target, w.Code)
		}
	}
}

func TestForwardedRequest_ReadsTheHeadersOfEachProxy(t *testing.T) {
	nginx := func(uri string) http.Header {
		return http.Header{"X-Original-Method": {"POST"}, "X-Original-Uri": {uri}}
	}
	traefik := func(uri string) http.Header {
		return http.Header{"X-Forwarded-Method": {"POST"}, "X-Forwarded-Uri": {uri}, "X-Forwarded-Host": {"API.shop.example:8443"}}
	}
	request := func(host, path string, query map[string][]string) rules.Request {
		return rules.Request{Method: "POST", Host: host, Path: path, Query: query}
	}
	with := func(h http.Header, name, value string) http.Header {
		h[name] = []string{value}
		return h
	}
	const host = "api.shop.example"
	tests := map[string]struct {
		header http.Header
		want   rules.Request
	}{
		"Traefik":                         {traefik("/v1/search?q=x&q=y%20z"), request(host, "/v1/search", map[string][]string{"q": {"x", "y z"}})},
		"without X-Forwarded-Host":        {http.Header{"X-Forwarded-Method": {"POST"}, "X-Forwarded-Uri": {"/"}}, request("weir", "/", nil)},
		"nginx: the host is Host":         {with(nginx("/v1/search"), "X-Forwarded-Host", "evil"), request("weir", "/v1/search", nil)},
		"an empty header is absent":       {with(nginx("/v1/search"), "X-Forwarded-Uri", ""), request("weir", "/v1/search", nil)},
		"ingress-nginx":                   {http.Header{"X-Original-Method": {"POST"}, "X-Original-Url": {"https://Api.shop.example/v1?a=b"}}, request(host, "/v1", map[string][]string{"a": {"b"}})},
		"ingress-nginx, a path alone":     {http.Header{"X-Original-Method": {"POST"}, "X-Original-Url": {"/v1"}}, request("weir", "/v1", nil)},
		"dot segments":                    {traefik("/v1/./x/../search"), request(host, "/v1/search", nil)},
		"dots in escapes":                 {traefik("/v1/x/%2e%2E/search"), request(host, "/v1/search", nil)},
		"dots above the root":             {traefik("/../../v1/search"), request(host, "/v1/search", nil)},
		"double slashes":                  {traefik("//v1///search/"), request(host, "/v1/search", nil)},
		"a slash in escapes":              {traefik("/v1%2Fsearch"), request(host, "/v1/search", nil)},
		"letters in escapes":              {traefik("/v1/%73earch"), request(host, "/v1/search", nil)},
		"parameters of a segment":         {traefik("/v1;a=b/search;c"), request(host, "/v1;a=b/search;c", nil)},
		"a semicolon in the query":        {traefik("/?a=b;c=d&e=f"), request(host, "/", map[string][]string{"e": {"f"}})},
		"an invalid escape":               {traefik("/v1/%zz/%73earch"), request(host, "/v1/%zz/search", nil)},
		"an absolute URL":                 {traefik("http://evil.example/v1/search?q=x"), request(host, "/v1/search", map[string][]string{"q": {"x"}})},
		"an absolute URL without path":    {traefik("HTTPS://evil.example"), request(host, "/", nil)},
		"an absolute URL with query only": {traefik("http://evil.example?q=x"), request(host, "/", map[string][]string{"q": {"x"}})},
		"a scheme without host":           {traefik("http:/v1/search"), request(host, "/v1/search", nil)},
		"another scheme is a path":        {traefik("/ftp://a/b"), request(host, "/ftp:/a/b", nil)},
		"the asterisk form":               {traefik("*"), request(host, "/*", nil)},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodGet, "http://weir:8080/v1/auth/shop", nil)
			r.Header = test.header
			got, bad := forwardedRequest(r)
			if bad != nil {
				t.Fatalf("rejected: %+v", *bad)
			}
			// limiter/rules tests the readings of paths and queries.
			got.Headers, got.RawPath, got.RawQuery, got.OtherQueries = nil, "", "", nil
			if diff := cmp.Diff(test.want, got, cmp.Comparer(sameAddress)); diff != "" {
				t.Errorf("request (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNormalHeaders_JoinsRepeatedHeaders(t *testing.T) {
	got, _ := rules.NormalHeaders(http.Header{"Cookie": {"a=b", "c=d"}, "Accept": {"x", "y"}, "X-Tenant-Id": {"acme"}})
	want := map[string]string{"cookie": "a=b; c=d", "accept": "x,y", "x-tenant-id": "acme"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("headers (-want +got):\n%s", diff)
	}
}

func TestHeaderClaims_ReadsOnlyTheNamedHeader(t *testing.T) {
	const payload = `{"sub":"u?1","n":12345678901234567890}`
	want := map[string]any{"sub": "u?1", "n": json.Number("12345678901234567890")}
	for name, value := range map[string]string{
		"JSON":                             payload,
		"base64url":                        base64.RawURLEncoding.EncodeToString([]byte(payload)),
		"base64url, padded":                base64.URLEncoding.EncodeToString([]byte(payload)),
		"base64, padded":                   base64.StdEncoding.EncodeToString([]byte(payload)),
		"base64 of the other alphabet, ??": base64.RawStdEncoding.EncodeToString([]byte(payload)),
	} {
		h := http.Header{"X-Jwt-Payload": {value}}
		got, bad := headerClaims(h, "X-Jwt-Payload")
		if diff := cmp.Diff(want, got); diff != "" || bad != nil {
			t.Errorf("%s: %+v, claims (-want +got):\n%s", name, bad, diff)
		}
		if got, bad := headerClaims(h, ""); got != nil || bad != nil {
			t.Errorf("%s without such a header: %v, %+v", name, got, bad)
		}
	}
	if got, bad := headerClaims(http.Header{}, "X-Jwt-Payload"); got != nil || bad != nil {
		t.Errorf("no claims: %v, %+v", got, bad)
	}
}

func addressRule(units int64) rules.Rule {
	r := tenantRule("ip", units)
	r.Axis, r.Identifier = "IP", rules.Identifier{From: rules.FromClientIP}
	return r
}

func TestAuth_CountsClientsByTheirAddress(t *testing.T) {
	proxies, err := address.ParseNetworks([]string{"192.0.2.0/24"}) // the network of the callers in httptest
	if err != nil {
		t.Fatal(err)
	}
	others, err := address.ParseNetworks([]string{"10.0.0.0/8"})
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		clients *address.Trusted
		header  http.Header
		want    int // status of a second request with another address in the place of %
	}{
		"only the last address counts":     {nil, http.Header{"X-Forwarded-For": {"%, 203.0.113.7"}}, 429},
		"the caller adds the last address": {nil, http.Header{"X-Forwarded-For": {"203.0.113.7, %"}}, 200},
		"a trusted proxy names the client": {address.NewTrusted(address.XForwardedFor, proxies), http.Header{"X-Forwarded-For": {"%, 192.0.2.9"}}, 200},
		"the caller is not trusted":        {address.NewTrusted(address.XForwardedFor, others), http.Header{"X-Forwarded-For": {"%"}}, 429},
		"the other field is not read":      {nil, http.Header{"Forwarded": {"for=%"}}, 429},
		"the configured field is read":     {address.NewTrusted(address.Forwarded, proxies), http.Header{"Forwarded": {"for=%"}}, 200},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			h := newHandlerWith(t, newEngine(t, atNoon(), addressRule(1)), func(o *Options) {
				o.Clients, o.Log = test.clients, slog.New(slog.NewTextHandler(&log, nil))
			})
			var status int
			for _, written := range []string{"198.51.100.1", "198.51.100.2"} {
				header := http.Header{}
				for name, values := range test.header {
					header[name] = []string{strings.ReplaceAll(values[0], "%", written)}
				}
				status = call(h, authRequest("/v1/auth/shop", header)).Code
			}
			if status != test.want {
				t.Errorf("status %d, want %d", status, test.want)
			}
			warnings := strings.Count(log.String(), "is not a trusted proxy")
			if want := map[bool]int{true: 1}[name == "the caller is not trusted"]; warnings != want {
				t.Errorf("%d warnings, want %d: %s", warnings, want, &log)
			}
		})
	}
}

// dripRule is a leaky bucket of units per second that delays up to nine requests.
func dripRule(name string, units int64) rules.Rule {
	r := tenantRule(name, units)
	r.Algorithm, r.WindowSeconds, r.Burst = limiter.LeakyBucket, 1, 9
	return r
}

func TestAuth_DelaysARequestUntilItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHandler(t, newEngine(t, memstore.New(time.Now), dripRule("drip", 2)))
		for _, want := range []time.Duration{0, 500 * time.Millisecond, 500 * time.Millisecond} {
			began := time.Now()
			if w := call(h, authRequest("/v1/auth/shop", nil)); w.Code != http.StatusOK || time.Since(began) != want {
				t.Errorf("status %d after %v, want 200 after %v", w.Code, time.Since(began), want)
			}
		}
	})
}

func TestAuth_DeniesAndDoesNotCountARequestWithTooLongADelay(t *testing.T) {
	h := newHandlerWith(t, newEngine(t, atNoon(), dripRule("drip", 1), tenantRule("z", 100)), func(o *Options) { o.MaxDelay = time.Nanosecond })
	if w := call(h, authRequest("/v1/auth/shop", nil)); w.Code != http.StatusOK {
		t.Fatalf("first request: %d %s", w.Code, w.Body)
	}
	for range 3 {
		w := call(h, authRequest("/v1/auth/shop", nil))
		if w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") != "1" || !strings.Contains(w.Body.String(), `["shop/drip"]`) {
			t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
		}
	}
	peek := strings.Replace(acme, "{", `{"peek":true,`, 1)
	if w := post(h, peek); !strings.Contains(w.Body.String(), `"delayMs":1000,`) || !strings.Contains(w.Body.String(), `"limit":100,"remaining":99,`) {
		t.Errorf("later check: %s", w.Body)
	}
}

// callCounter counts the calls of a store.
type callCounter struct {
	limiter.Store
	spends, peeks, refunds atomic.Int64
}

func (s *callCounter) Spend(ctx context.Context, charges []limiter.Charge) ([]limiter.Decision, error) {
	s.spends.Add(1)
	return s.Store.Spend(ctx, charges)
}

func (s *callCounter) Peek(ctx context.Context, charges []limiter.Charge) ([]limiter.Decision, error) {
	s.peeks.Add(1)
	return s.Store.Peek(ctx, charges)
}

func (s *callCounter) Refund(ctx context.Context, refunds []limiter.Refund) error {
	s.refunds.Add(1)
	return s.Store.Refund(ctx, refunds)
}

// A shadow policy that has denied the request was not charged, so nothing must be refunded on it.
func TestAuth_DecidesTooLongADelayInOneCall(t *testing.T) {
	dark := tenantRule("dark", 1)
	dark.Shadow = true
	store := &callCounter{Store: atNoon()}
	h := newHandlerWith(t, newEngine(t, store, dark, dripRule("slow", 1)), func(o *Options) { o.MaxDelay = time.Nanosecond })
	for _, want := range []int{http.StatusOK, http.StatusTooManyRequests} {
		if w := call(h, authRequest("/v1/auth/shop", nil)); w.Code != want {
			t.Fatalf("%d %s, want %d", w.Code, w.Body, want)
		}
	}
	if spends, peeks, refunds := store.spends.Load(), store.peeks.Load(), store.refunds.Load(); spends != 2 || peeks+refunds != 0 {
		t.Errorf("two requests: %d spends, %d peeks, %d refunds, want 2 spends", spends, peeks, refunds)
	}
	peek := strings.Replace(acme, "{", `{"peek":true,`, 1)
	if w := post(h, peek); !strings.Contains(w.Body.String(), `"policy":"shop/dark"`) || !strings.Contains(w.Body.String(), `"limit":1,"remaining":0,`) {
		t.Errorf("the shadow policy, which has counted one request: %s", w.Body)
	}
}

func TestAuth_KeepsTheUnitsOfACallerThatLeavesDuringTheDelay(t *testing.T) {
	h := newHandler(t, newEngine(t, atNoon(), dripRule("drip", 1)))
	call(h, authRequest("/v1/auth/shop", nil))
	gone, leave := context.WithCancel(t.Context())
	leave()
	w := call(h, authRequest("/v1/auth/shop", nil).WithContext(gone))
	if w.Code != http.StatusServiceUnavailable || len(w.Header()) != 0 || w.Body.Len() != 0 {
		t.Errorf("the caller that left received %d %v %s, want a status that does not admit the request", w.Code, w.Header(), w.Body)
	}
	if w := post(h, strings.Replace(acme, "{", `{"peek":true,`, 1)); !strings.Contains(w.Body.String(), `"delayMs":2000,`) {
		t.Errorf("later check: %s", w.Body)
	}
}

func TestAuth_ReportsAMissingDecision(t *testing.T) {
	store := &brittleStore{Store: atNoon()}
	store.broken.Store(true)
	for _, target := range []string{"/v1/auth/shop", "/v1/auth/shop?deny=403"} {
		w := call(newHandler(t, newEngine(t, store, tenantRule("a", 3))), authRequest(target, nil))
		if w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "temporary-reduced-capacity") || w.Header().Get("Retry-After") != "1" {
			t.Errorf("%s: %d %v %s", target, w.Code, w.Header(), w.Body)
		}
	}
}

func TestAuth_UsesTheHeaderStyleOfTheLimiter(t *testing.T) {
	h := newHandlerWith(t, newEngine(t, atNoon(), tenantRule("a", 3)), func(o *Options) { o.Style = reply.XRateLimitHeaders })
	w := call(h, authRequest("/v1/auth/shop", nil))
	if got := headerOf(w, "X-RateLimit-Remaining"); got != "2" {
		t.Errorf("X-RateLimit-Remaining: %q in %v", got, w.Header())
	}
}
