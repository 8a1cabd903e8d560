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

// newEndpoints returns endpoints around e with options of the test's.
func newEndpoints(t testing.TB, e *engine.Engine, change func(*Options)) http.Handler {
	t.Helper()
	o := Options{Engine: e, Style: reply.RateLimitHeaders, Metrics: NewMetrics(prometheus.NewRegistry()), Log: discard()}
	change(&o)
	return NewHandler(o)
}

// question is a proxy's for GET https://api.shop.example/v1/search of acme.
func question(target string, more http.Header) *http.Request {
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

func askEndpoint(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestForwardAuthAllowsAndDenies(t *testing.T) {
	denied := `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Quota Exceeded","status":429,
	  "detail":"over the limit of shop/a; retry in 60 s","violated-policies":["shop/a"]}`
	limits := func(more http.Header) http.Header {
		h := http.Header{"RateLimit-Policy": {`"shop/a";q=1;w=60`}, "RateLimit": {`"shop/a";r=0;t=60`}}
		maps.Copy(h, more)
		return h
	}
	problem := http.Header{"Content-Type": {"application/problem+json"}, "Retry-After": {"60"}}
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
		"no policy speaks for the domain":    {"/v1/auth/bank", 2, http.StatusOK, http.Header{}, ""},
		"a domain in escapes is the same":    {"/v1/auth/sh%6fp", 2, http.StatusTooManyRequests, limits(problem), denied},
		"allowed whatever denials look like": {"/v1/auth/shop?deny=403", 1, http.StatusOK, limits(nil), ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			h := newHandler(t, newEngine(t, atNoon(), tenantRule("a", 1)))
			var w *httptest.ResponseRecorder
			for range test.times {
				w = askEndpoint(h, question(test.target, nil))
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

func TestForwardAuthIsAskedWithAnyMethodAndItsBodyIsNotRead(t *testing.T) {
	h := newHandler(t, newEngine(t, atNoon(), tenantRule("a", 9)))
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodDelete, "PURGE"} {
		r := question("/v1/auth/shop", nil)
		body := &countingReader{}
		r.Method, r.Body = method, io.NopCloser(body)
		if w := askEndpoint(h, r); w.Code != http.StatusOK || w.Body.Len() != 0 || body.read != 0 {
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

func TestQuestionsThatAreNone(t *testing.T) {
	const both = "X-Original-Uri and X-Forwarded-Uri cannot both be the proxy's: let it remove the headers that it does not set"
	none := http.Header{"X-Forwarded-Method": nil, "X-Forwarded-Uri": nil}
	tests := map[string]struct {
		target        string
		header        http.Header
		field, detail string
	}{
		"another status":         {"/v1/auth/shop?deny=500", nil, "deny", "deny must be 401, 403 or 429, not 500"},
		"an empty status":        {"/v1/auth/shop?deny=", nil, "deny", "deny must be 401, 403 or 429, not "},
		"two statuses":           {"/v1/auth/shop?deny=403&deny=403", nil, "deny", "deny is given twice"},
		"another parameter":      {"/v1/auth/shop?denied=403", nil, "denied", "denied is not a parameter of /v1/auth; there is deny"},
		"a query that is none":   {"/v1/auth/shop?deny=4%zz", nil, "query", "query is not well-formed"},
		"an endless domain":      {"/v1/auth/" + strings.Repeat("a", 254), nil, "domain", "domain is longer than 253 bytes"},
		"nothing to ask for":     {"/v1/auth/shop", none, "X-Forwarded-Uri", "X-Forwarded-Uri is missing: a proxy says in it what it asks for"},
		"no method":              {"/v1/auth/shop", http.Header{"X-Forwarded-Method": nil}, "X-Forwarded-Method", "X-Forwarded-Method is missing: a proxy says in it what it asks for"},
		"an URI twice":           {"/v1/auth/shop", http.Header{"X-Forwarded-Uri": {"/a", "/b"}}, "X-Forwarded-Uri", "X-Forwarded-Uri is given twice: let the proxy replace the client's"},
		"a host twice":           {"/v1/auth/shop", http.Header{"X-Forwarded-Host": {"a", "b"}}, "X-Forwarded-Host", "X-Forwarded-Host is given twice: let the proxy replace the client's"},
		"several hosts":          {"/v1/auth/shop", http.Header{"X-Forwarded-Host": {"a, b"}}, "X-Forwarded-Host", "X-Forwarded-Host names several hosts"},
		"both families":          {"/v1/auth/shop", http.Header{"X-Original-Uri": {"/v1/search"}}, "X-Original-Uri", both},
		"a method of the other":  {"/v1/auth/shop", http.Header{"X-Original-Method": {"GET"}}, "X-Original-Uri", both},
		"an URL of the other":    {"/v1/auth/shop", http.Header{"X-Original-Url": {"http://a/"}}, "X-Original-Uri", both},
		"nginx without a method": {"/v1/auth/shop", http.Header{"X-Forwarded-Method": nil, "X-Forwarded-Uri": nil, "X-Original-Uri": {"/"}}, "X-Original-Method", "X-Original-Method is missing: a proxy says in it what it asks for"},
		"nginx without an URI":   {"/v1/auth/shop", http.Header{"X-Forwarded-Method": nil, "X-Forwarded-Uri": nil, "X-Original-Method": {"GET"}}, "X-Original-Uri", "X-Original-Uri is missing: a proxy says in it what it asks for"},
		"nginx with both":        {"/v1/auth/shop", http.Header{"X-Forwarded-Method": nil, "X-Forwarded-Uri": nil, "X-Original-Method": {"GET"}, "X-Original-Uri": {"/"}, "X-Original-Url": {"http://a/"}}, "X-Original-Uri", "X-Original-Uri and X-Original-Url cannot both be the proxy's"},
		"claims twice":           {"/v1/auth/shop", http.Header{"X-Jwt-Payload": {"{}", "{}"}}, "X-Jwt-Payload", "X-Jwt-Payload is given twice: let the proxy replace the client's"},
		"a whole token":          {"/v1/auth/shop", http.Header{"X-Jwt-Payload": {"e30.e30.x"}}, "X-Jwt-Payload", "X-Jwt-Payload is neither a JSON object nor one in base64: give the payload of the token, not all of it"},
		"half of the claims":     {"/v1/auth/shop", http.Header{"X-Jwt-Payload": {`{"sub":`}}, "X-Jwt-Payload", "X-Jwt-Payload does not hold JSON"},
		"a list of claims":       {"/v1/auth/shop", http.Header{"X-Jwt-Payload": {"W10"}}, "X-Jwt-Payload", "X-Jwt-Payload must be an object, not a list"},
		"a claim twice":          {"/v1/auth/shop", http.Header{"X-Jwt-Payload": {`{"a":1,"a":2}`}}, "X-Jwt-Payload.a", "X-Jwt-Payload.a is given twice"},
	}
	h := newEndpoints(t, newEngine(t, atNoon(), tenantRule("a", 1)), func(o *Options) { o.ClaimsHeader = "X-JWT-Payload" })
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w := askEndpoint(h, question(test.target, test.header))
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
		if w := askEndpoint(h, question(target, nil)); w.Code != http.StatusNotFound {
			t.Errorf("%s: status %d", target, w.Code)
		}
	}
}

func TestWhatAProxyAsksFor(t *testing.T) {
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
		"Traefik":                           {traefik("/v1/search?q=x&q=y%20z"), request(host, "/v1/search", map[string][]string{"q": {"x", "y z"}})},
		"without X-Forwarded-Host":          {http.Header{"X-Forwarded-Method": {"POST"}, "X-Forwarded-Uri": {"/"}}, request("weir", "/", nil)},
		"nginx: the host is Host":           {with(nginx("/v1/search"), "X-Forwarded-Host", "evil"), request("weir", "/v1/search", nil)},
		"an empty header is none":           {with(nginx("/v1/search"), "X-Forwarded-Uri", ""), request("weir", "/v1/search", nil)},
		"ingress-nginx":                     {http.Header{"X-Original-Method": {"POST"}, "X-Original-Url": {"https://Api.shop.example/v1?a=b"}}, request(host, "/v1", map[string][]string{"a": {"b"}})},
		"ingress-nginx, a path alone":       {http.Header{"X-Original-Method": {"POST"}, "X-Original-Url": {"/v1"}}, request("weir", "/v1", nil)},
		"dot segments":                      {traefik("/v1/./x/../search"), request(host, "/v1/search", nil)},
		"dots in escapes":                   {traefik("/v1/x/%2e%2E/search"), request(host, "/v1/search", nil)},
		"dots above the root":               {traefik("/../../v1/search"), request(host, "/v1/search", nil)},
		"double slashes":                    {traefik("//v1///search/"), request(host, "/v1/search", nil)},
		"a slash in escapes":                {traefik("/v1%2Fsearch"), request(host, "/v1/search", nil)},
		"letters in escapes":                {traefik("/v1/%73earch"), request(host, "/v1/search", nil)},
		"parameters of a segment":           {traefik("/v1;a=b/search;c"), request(host, "/v1;a=b/search;c", nil)},
		"a semicolon in the query":          {traefik("/?a=b;c=d&e=f"), request(host, "/", map[string][]string{"e": {"f"}})},
		"an escape that is none":            {traefik("/v1/%zz/%73earch"), request(host, "/v1/%zz/search", nil)},
		"the whole URL, as clients may ask": {traefik("http://evil.example/v1/search?q=x"), request(host, "/v1/search", map[string][]string{"q": {"x"}})},
		"the whole URL without path":        {traefik("HTTPS://evil.example"), request(host, "/", nil)},
		"the whole URL, a query only":       {traefik("http://evil.example?q=x"), request(host, "/", map[string][]string{"q": {"x"}})},
		"a scheme without host":             {traefik("http:/v1/search"), request(host, "/v1/search", nil)},
		"another scheme is a path":          {traefik("/ftp://a/b"), request(host, "/ftp:/a/b", nil)},
		"all of a server":                   {traefik("*"), request(host, "/*", nil)},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodGet, "http://weir:8080/v1/auth/shop", nil)
			r.Header = test.header
			got, bad := forwardedRequest(r)
			if bad != nil {
				t.Fatalf("refused: %+v", *bad)
			}
			got.Headers = nil
			if diff := cmp.Diff(test.want, got, cmp.Comparer(sameAddress)); diff != "" {
				t.Errorf("request (-want +got):\n%s", diff)
			}
		})
	}
}

func TestHeadersOfAQuestionAreTheClients(t *testing.T) {
	got := rules.NormalHeaders(http.Header{"Cookie": {"a=b", "c=d"}, "Accept": {"x", "y"}, "X-Tenant-Id": {"acme"}})
	want := map[string]string{"cookie": "a=b; c=d", "accept": "x,y", "x-tenant-id": "acme"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("headers (-want +got):\n%s", diff)
	}
}

func TestClaimsComeFromTheHeaderOfThatNameOnly(t *testing.T) {
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
		got, bad := claimsOf(h, "X-Jwt-Payload")
		if diff := cmp.Diff(want, got); diff != "" || bad != nil {
			t.Errorf("%s: %+v, claims (-want +got):\n%s", name, bad, diff)
		}
		if got, bad := claimsOf(h, ""); got != nil || bad != nil {
			t.Errorf("%s without such a header: %v, %+v", name, got, bad)
		}
	}
	if got, bad := claimsOf(http.Header{}, "X-Jwt-Payload"); got != nil || bad != nil {
		t.Errorf("no claims: %v, %+v", got, bad)
	}
}

func addressRule(units int64) rules.Rule {
	r := tenantRule("ip", units)
	r.Axis, r.Identifier = "IP", rules.Identifier{From: rules.FromClientIP}
	return r
}

func TestForwardAuthCountsClientsByTheirOwnAddress(t *testing.T) {
	proxies, err := address.ParseNetworks([]string{"192.0.2.0/24"}) // where httptest asks from
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
		want    int // status of a second request that differs in what the client wrote
	}{
		"the caller is believed":             {nil, http.Header{"X-Forwarded-For": {"%, 203.0.113.7"}}, 429},
		"and nobody behind it":               {nil, http.Header{"X-Forwarded-For": {"203.0.113.7, %"}}, 200},
		"trusted proxies are":                {address.NewTrusted(address.XForwardedFor, proxies), http.Header{"X-Forwarded-For": {"%, 192.0.2.9"}}, 200},
		"others are not":                     {address.NewTrusted(address.XForwardedFor, others), http.Header{"X-Forwarded-For": {"%"}}, 429},
		"the other field is not read":        {nil, http.Header{"Forwarded": {"for=%"}}, 429},
		"unless it is the one that is meant": {address.NewTrusted(address.Forwarded, proxies), http.Header{"Forwarded": {"for=%"}}, 200},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			h := newEndpoints(t, newEngine(t, atNoon(), addressRule(1)), func(o *Options) {
				o.Clients, o.Log = test.clients, slog.New(slog.NewTextHandler(&log, nil))
			})
			var status int
			for _, written := range []string{"198.51.100.1", "198.51.100.2"} {
				header := http.Header{}
				for name, values := range test.header {
					header[name] = []string{strings.ReplaceAll(values[0], "%", written)}
				}
				status = askEndpoint(h, question("/v1/auth/shop", header)).Code
			}
			if status != test.want {
				t.Errorf("status %d, want %d", status, test.want)
			}
			warnings := strings.Count(log.String(), "is no trusted proxy")
			if want := map[bool]int{true: 1}[name == "others are not"]; warnings != want {
				t.Errorf("%d warnings, want %d: %s", warnings, want, &log)
			}
		})
	}
}

func dripRule(name string, units, burst int64) rules.Rule {
	r := tenantRule(name, units)
	r.Algorithm, r.WindowSeconds, r.Burst = limiter.LeakyBucket, 1, burst
	return r
}

func TestForwardAuthHoldsARequestBackUntilItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHandler(t, newEngine(t, memstore.New(time.Now), dripRule("drip", 2, 9)))
		for _, want := range []time.Duration{0, 500 * time.Millisecond, 500 * time.Millisecond} {
			began := time.Now()
			if w := askEndpoint(h, question("/v1/auth/shop", nil)); w.Code != http.StatusOK || time.Since(began) != want {
				t.Errorf("status %d after %v, want 200 after %v", w.Code, time.Since(began), want)
			}
		}
	})
}

func TestARequestThatWouldWaitTooLongIsDeniedAndNotCounted(t *testing.T) {
	h := newEndpoints(t, newEngine(t, atNoon(), dripRule("drip", 1, 9), tenantRule("z", 100)), func(o *Options) { o.MaxDelay = time.Nanosecond })
	if w := askEndpoint(h, question("/v1/auth/shop", nil)); w.Code != http.StatusOK {
		t.Fatalf("the first: %d %s", w.Code, w.Body)
	}
	for range 3 {
		w := askEndpoint(h, question("/v1/auth/shop", nil))
		if w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") != "1" || !strings.Contains(w.Body.String(), `["shop/drip"]`) {
			t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
		}
	}
	peek := strings.Replace(acme, "{", `{"peek":true,`, 1)
	if w := post(h, peek); !strings.Contains(w.Body.String(), `"delayMs":1000,`) || !strings.Contains(w.Body.String(), `"limit":100,"remaining":99,`) {
		t.Errorf("afterwards: %s", w.Body)
	}
}

func TestUnitsOfACallerThatLeavesWhileItWaitsStaySpent(t *testing.T) {
	h := newHandler(t, newEngine(t, atNoon(), dripRule("drip", 1, 9)))
	askEndpoint(h, question("/v1/auth/shop", nil))
	gone, leave := context.WithCancel(t.Context())
	leave()
	w := askEndpoint(h, question("/v1/auth/shop", nil).WithContext(gone))
	if len(w.Header()) != 0 || w.Body.Len() != 0 {
		t.Errorf("the caller that left was told %v %s", w.Header(), w.Body)
	}
	if w := post(h, strings.Replace(acme, "{", `{"peek":true,`, 1)); !strings.Contains(w.Body.String(), `"delayMs":2000,`) {
		t.Errorf("afterwards: %s", w.Body)
	}
}

func TestForwardAuthTellsWhenThereIsNoDecision(t *testing.T) {
	store := &brittleStore{Store: atNoon()}
	store.broken.Store(true)
	for _, target := range []string{"/v1/auth/shop", "/v1/auth/shop?deny=403"} {
		w := askEndpoint(newHandler(t, newEngine(t, store, tenantRule("a", 3))), question(target, nil))
		if w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "temporary-reduced-capacity") || w.Header().Get("Retry-After") != "1" {
			t.Errorf("%s: %d %v %s", target, w.Code, w.Header(), w.Body)
		}
	}
}

func TestForwardAuthSpeaksTheStyleOfTheLimiter(t *testing.T) {
	h := newEndpoints(t, newEngine(t, atNoon(), tenantRule("a", 3)), func(o *Options) { o.Style = reply.XRateLimitHeaders })
	w := askEndpoint(h, question("/v1/auth/shop", nil))
	if got := headerOf(w, "X-RateLimit-Remaining"); got != "2" {
		t.Errorf("X-RateLimit-Remaining: %q in %v", got, w.Header())
	}
}
