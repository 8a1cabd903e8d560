package httplimit_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-dev/weir/go/httplimit"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/reply"
	"github.com/weir-dev/weir/limiter/rules"
)

// exchange is a request and the expected response.
type exchange struct {
	method, target string
	headers        map[string]string
	status         int
	want           map[string]string // response fields, with capitals as sent over HTTP/1.1
	body           string
}

func TestHTTP_LimitsRequests(t *testing.T) {
	acme := map[string]string{"X-Tenant-Id": "acme"}
	shadow := tenantRule("shadow", 1)
	shadow.Shadow = true
	custom := tenantRule("a", 1)
	custom.Denial = &rules.Denial{Status: 402, Message: "{}", ContentType: "application/json", Headers: []rules.DenialHeader{{Name: "x-plan", Value: "free"}}}
	tests := map[string]struct {
		rules     []rules.Rule
		options   []httplimit.Option
		http      []httplimit.HTTPOption
		exchanges []exchange
	}{
		"a request that no policy matches is served": {
			exchanges: []exchange{{"GET", "/", acme, 200, map[string]string{}, "served"}},
		},
		"the second request exceeds a limit of one": {
			rules: []rules.Rule{tenantRule("a", 1), tenantRule("b", 9)},
			exchanges: []exchange{
				{"GET", "/", acme, 200, map[string]string{
					"RateLimit-Policy": `"shop/a";q=1;w=60, "shop/b";q=9;w=60`, "RateLimit": `"shop/a";r=0;t=60, "shop/b";r=8;t=60`,
				}, "served"},
				{"GET", "/", acme, 429, map[string]string{
					"RateLimit-Policy": `"shop/a";q=1;w=60, "shop/b";q=9;w=60`, "RateLimit": `"shop/a";r=0;t=60, "shop/b";r=8;t=60`,
					"Retry-After": "60", "Content-Type": "application/problem+json",
				}, `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Quota Exceeded","status":429,` +
					`"detail":"over the limit of shop/a; retry in 60 s","violated-policies":["shop/a"]}` + "\n"},
				{"GET", "/", map[string]string{"X-Tenant-Id": "globex"}, 200, map[string]string{
					"RateLimit-Policy": `"shop/a";q=1;w=60, "shop/b";q=9;w=60`, "RateLimit": `"shop/a";r=0;t=60, "shop/b";r=8;t=60`,
				}, "served"},
			},
		},
		"a policy sets the response": {
			rules:   []rules.Rule{custom},
			options: []httplimit.Option{httplimit.Style(reply.NoHeaders)},
			exchanges: []exchange{
				{"GET", "/", acme, 200, map[string]string{}, "served"},
				{
					"GET", "/", acme, 402,
					map[string]string{"Content-Type": "application/json", "Retry-After": "60", "X-Plan": "free", "Cache-Control": "no-store"},
					"{}",
				},
			},
		},
		"a cost above the limit is never allowed": {
			rules:   []rules.Rule{tenantRule("a", 3)},
			options: []httplimit.Option{httplimit.Style(reply.NoHeaders)},
			http:    []httplimit.HTTPOption{httplimit.Cost(func(*http.Request) int64 { return 4 })},
			exchanges: []exchange{
				{
					"GET", "/", acme, 429,
					map[string]string{"Content-Type": "application/problem+json"},
					`{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Quota Exceeded","status":429,` +
						`"detail":"over the limit of shop/a; the request costs more than the limit, so a retry cannot succeed","violated-policies":["shop/a"]}` + "\n",
				},
			},
		},
		"a cost of 0 is not decided, and a negative cost counts as 1": {
			rules:   []rules.Rule{tenantRule("a", 1)},
			options: []httplimit.Option{httplimit.Style(reply.XRateLimitHeaders)},
			http: []httplimit.HTTPOption{httplimit.Cost(func(r *http.Request) int64 {
				if r.URL.Path == "/free" {
					return 0
				}
				return -5
			})},
			exchanges: []exchange{
				{"GET", "/free", acme, 200, map[string]string{}, "served"},
				{"GET", "/", acme, 200, map[string]string{
					"X-RateLimit-Limit": `1, 1;w=60;name="shop/a"`, "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "60",
				}, "served"},
			},
		},
		"a shadow policy is not in the response": {
			rules:     []rules.Rule{shadow},
			exchanges: []exchange{{"GET", "/", acme, 200, map[string]string{}, "served"}, {"GET", "/", acme, 200, map[string]string{}, "served"}},
		},
		"policies see only the headers in OnlyHeaders": {
			rules:     []rules.Rule{tenantRule("a", 1)},
			options:   []httplimit.Option{httplimit.Style(reply.NoHeaders)},
			http:      []httplimit.HTTPOption{httplimit.OnlyHeaders("x-PLAN")},
			exchanges: []exchange{{"GET", "/", acme, 200, map[string]string{}, "served"}, {"GET", "/", map[string]string{"X-Tenant-Id": "b"}, 429, nil, ""}},
		},
		"Describe changes the domain": {
			rules:     []rules.Rule{tenantRule("a", 1)},
			http:      []httplimit.HTTPOption{httplimit.Describe(func(_ *http.Request, c *engine.Check) { c.Request.Domain = "store" })},
			exchanges: []exchange{{"GET", "/", acme, 200, map[string]string{}, "served"}},
		},
	}
	for way, decider := range deciders() {
		for name, test := range tests {
			t.Run(way+"/"+name, func(t *testing.T) {
				d := decider(t, newEngine(t, func() time.Time { return noon }, test.rules...))
				gate := httplimit.NewGate(d, "shop", append(test.options, httplimit.Log(discard()))...)
				s := serve(t, httplimit.Middleware(gate, test.http...)(served()))
				for i, x := range test.exchanges {
					x.compare(t, fmt.Sprintf("request %d", i), s)
				}
			})
		}
	}
}

func (x *exchange) compare(t *testing.T, what string, s *httptest.Server) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), x.method, s.URL+x.target, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range x.headers {
		request.Header.Set(name, value)
	}
	response, err := s.Client().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	if response.StatusCode != x.status {
		t.Errorf("%s: status %d, want %d: %s", what, response.StatusCode, x.status, body)
	}
	if x.want == nil {
		return
	}
	got := map[string]string{}
	for name, values := range response.Header {
		if name == "Content-Length" || name == "Date" || x.want["Content-Type"] == "" && name == "Content-Type" {
			continue
		}
		got[http.CanonicalHeaderKey(name)] = strings.Join(values, "|")
	}
	want := map[string]string{}
	for name, value := range x.want {
		want[http.CanonicalHeaderKey(name)] = value
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s: headers (-want +got):\n%s", what, diff)
	}
	if diff := cmp.Diff(x.body, string(body)); diff != "" {
		t.Errorf("%s: body (-want +got):\n%s", what, diff)
	}
}

// One request is counted by every kind of identifier, in this process and over HTTP.
func TestHTTP_ReadsTheSameIdentifiersInProcessAndOverHTTP(t *testing.T) {
	list := []rules.Rule{
		rule("claim", 9, rules.Identifier{From: rules.FromClaim, Name: "sub"}),
		rule("cookie", 9, rules.Identifier{From: rules.FromCookie, Name: "session"}),
		rule("descriptor", 9, rules.Identifier{From: rules.FromDescriptor, Name: "plan"}),
		rule("endpoint", 9, rules.Identifier{From: rules.FromEndpoint}),
		rule("header", 9, rules.Identifier{From: rules.FromHeader, Name: "x-list"}),
		rule("ip", 9, rules.Identifier{From: rules.FromClientIP}),
		rule("query", 9, rules.Identifier{From: rules.FromQuery, Name: "k y"}),
		rule("secret", 9, rules.Identifier{From: rules.FromHeader, Name: "x-api-key", Secret: true}),
	}
	list[3].Match.Hosts = []string{"api.shop.example"}
	list[3].Match.Paths = []rules.PathMatch{{Type: rules.PathExact, Value: "/a b/%41?#"}}
	want := map[string]string{
		"shop/claim": "u1", "shop/cookie": "two", "shop/descriptor": "free", "shop/endpoint": "/a b/%41?#", "shop/header": "?",
		"shop/ip": "203.0.113.7", "shop/query": "é&=",
	}
	for way, decider := range deciders() {
		t.Run(way, func(t *testing.T) {
			var observed engine.Answer
			gate := httplimit.NewGate(decider(t, newEngine(t, func() time.Time { return noon }, list...)), "shop",
				httplimit.Observe(func(_ context.Context, _ *engine.Check, a engine.Answer, err error) {
					if observed = a; err != nil {
						t.Error(err)
					}
				}))
			h := httplimit.Middleware(gate, httplimit.Claims(func(*http.Request) map[string]any {
				return map[string]any{"sub": "u1", "roles": []string{"x"}}
			}), httplimit.Describe(func(_ *http.Request, c *engine.Check) {
				c.Request.Descriptors = []rules.Descriptor{{{Key: "generic_key", Value: "login"}}, {{Key: "plan", Value: "free"}}}
			}))(served())
			r := httptest.NewRequest(http.MethodGet, "http://API.shop.example:80//a%20b/./%2541%3F%23?k+y=%C3%A9%26%3D&bad=%", nil)
			r.RemoteAddr = "[::ffff:203.0.113.7]:4711"
			r.Header = http.Header{
				"Cookie": {"one=1", "session=two"}, "X-List": {"a", "b"}, "X-Api-Key": {"hush"}, "X-Forwarded-For": {"198.51.100.1"},
			}
			w := httptest.NewRecorder()
			if h.ServeHTTP(w, r); w.Code != http.StatusOK {
				t.Fatalf("status %d: %s", w.Code, w.Body)
			}
			got := map[string]string{}
			for _, r := range observed.Results {
				got[r.Rule.Policy] = r.Identifier
			}
			if secret := got["shop/secret"]; secret == "" || strings.Contains(secret, "hush") {
				t.Errorf("secret counted under %q", secret)
			}
			delete(got, "shop/secret")
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("identifiers (-want +got):\n%s", diff)
			}
		})
	}
}

func TestForwardedFor_IgnoresForgedAddresses(t *testing.T) {
	trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}
	tests := map[string]struct {
		peer      string
		forwarded []string
		want      string
	}{
		"without proxies it is the address of the peer":      {"198.51.100.1:99", nil, "198.51.100.1"},
		"the header of a client is ignored":                  {"198.51.100.1:99", []string{"203.0.113.7"}, "198.51.100.1"},
		"a trusted proxy names the client":                   {"10.0.0.1:99", []string{"203.0.113.7"}, "203.0.113.7"},
		"what the client sent to a trusted proxy is ignored": {"10.0.0.1:99", []string{"1.1.1.1, 203.0.113.7"}, "203.0.113.7"},
		"two proxies, in two lines":                          {"[fd00::1]:99", []string{"1.1.1.1, 203.0.113.7:1234", " 10.0.0.2 "}, "203.0.113.7"},
		"an IPv6 client with its port":                       {"10.0.0.1:99", []string{"[2001:db8::7]:80"}, "2001:db8::7"},
		"an IPv4 address in IPv6":                            {"10.0.0.1:99", []string{"::ffff:203.0.113.7"}, "203.0.113.7"},
		"an invalid address ends the search":                 {"10.0.0.1:99", []string{"203.0.113.7, unknown"}, "10.0.0.1"},
		"only proxies":                                       {"10.0.0.1:99", []string{"10.0.0.3,10.0.0.2"}, "10.0.0.3"},
		"a middleware has replaced the peer":                 {"198.51.100.1", []string{"203.0.113.7"}, "198.51.100.1"},
		"a middleware has named a proxy":                     {"fd00::1", []string{"203.0.113.7"}, "203.0.113.7"},
		"a Unix socket has no address":                       {"@", []string{"203.0.113.7"}, "invalid IP"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			r.RemoteAddr, r.Header["X-Forwarded-For"] = test.peer, test.forwarded
			if got := httplimit.ForwardedFor(trusted...)(r).String(); got != test.want {
				t.Errorf("client %s, want %s", got, test.want)
			}
		})
	}
}

// The clock of the synctest bubble makes every wait exact.
func TestEnter_WaitsForTheTurnOfARequest(t *testing.T) {
	tests := map[string]struct {
		options  []httplimit.Option
		deadline time.Duration // of the fourth request, which would wait for 150 ms
		status   int
		waited   time.Duration
		retry    string
		detail   string
	}{
		"as long as the policy requires": {status: 200, waited: 150 * time.Millisecond},
		"no longer than MaxDelay": {
			options: []httplimit.Option{httplimit.MaxDelay(149 * time.Millisecond)},
			status:  429, retry: "1", detail: "over the limit of shop/drip; retry in 1 s",
		},
		"exactly as long as MaxDelay": {
			options: []httplimit.Option{httplimit.MaxDelay(150 * time.Millisecond)},
			status:  200, waited: 150 * time.Millisecond,
		},
		"not beyond the deadline": {deadline: 100 * time.Millisecond, status: 429, retry: "1", detail: "over the limit of shop/drip; retry in 1 s"},
		"within the deadline":     {deadline: time.Second, status: 200, waited: 150 * time.Millisecond},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				shadow := tenantRule("shadow", 1)
				shadow.Shadow = true
				e := newEngine(t, time.Now, drip(5), shadow, tenantRule("wide", 1000))
				h := httplimit.Middleware(httplimit.NewGate(e, "shop", append(test.options, httplimit.Log(discard()))...))(served())
				for range 3 {
					if _, err := e.Check(t.Context(), &engine.Check{Cost: 1, Request: rules.Request{
						Domain: "shop", Headers: map[string]string{"x-tenant-id": "acme"},
					}}); err != nil {
						t.Fatal(err)
					}
				}
				r := httptest.NewRequest(http.MethodGet, "/", nil)
				r.Header.Set("X-Tenant-Id", "acme")
				if test.deadline > 0 {
					ctx, cancel := context.WithTimeout(t.Context(), test.deadline)
					defer cancel()
					r = r.WithContext(ctx)
				}
				w, began := httptest.NewRecorder(), time.Now()
				h.ServeHTTP(w, r)
				if waited := time.Since(began); waited != test.waited || w.Code != test.status {
					t.Errorf("status %d after %v, want %d after %v", w.Code, waited, test.status, test.waited)
				}
				if got := w.Header().Get("Retry-After"); got != test.retry || !strings.Contains(w.Body.String(), test.detail) {
					t.Errorf("Retry-After %q, want %q; body %s", got, test.retry, w.Body)
				}
			})
		})
	}
}

// The fourth of four requests is served 150 ms after the first, in this process and over HTTP.
func TestHTTP_WaitsForTheTurnOfARequest(t *testing.T) {
	for way, decider := range deciders() {
		t.Run(way, func(t *testing.T) {
			gate := httplimit.NewGate(decider(t, newEngine(t, time.Now, drip(5))), "shop")
			s := serve(t, httplimit.Middleware(gate)(served()))
			began := time.Now()
			for range 4 {
				(&exchange{method: "GET", target: "/", headers: map[string]string{"X-Tenant-Id": "acme"}, status: 200}).compare(t, "request", s)
			}
			// A remote delay is rounded up to the millisecond, so the wait is never too short.
			if took := time.Since(began); took < 150*time.Millisecond {
				t.Errorf("four requests at one per 50 ms took %v, want at least 150 ms", took)
			}
		})
	}
}

// Only the leaky bucket denies, in this process and over HTTP.
func TestMaxDelay_DeniesARequestThatWouldWaitLonger(t *testing.T) {
	for way, decider := range deciders() {
		t.Run(way, func(t *testing.T) {
			e := newEngine(t, func() time.Time { return noon }, drip(5), tenantRule("wide", 1000))
			gate := httplimit.NewGate(decider(t, e), "shop", httplimit.Style(reply.NoHeaders), httplimit.MaxDelay(49*time.Millisecond))
			s := serve(t, httplimit.Middleware(gate)(served()))
			(&exchange{method: "GET", target: "/", status: 200}).compare(t, "the first request", s)
			(&exchange{
				"GET", "/", nil, 429,
				map[string]string{"Content-Type": "application/problem+json", "Retry-After": "1"},
				`{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Quota Exceeded","status":429,` +
					`"detail":"over the limit of shop/drip; retry in 1 s","violated-policies":["shop/drip"]}` + "\n",
			}).compare(t, "the second request", s)
		})
	}
}

// A request that is denied because it would wait too long must not make later requests wait.
func TestMaxDelay_KeepsNoUnitsOfADeniedRequest(t *testing.T) {
	e := newEngine(t, func() time.Time { return noon }, drip(5), tenantRule("wide", 1000))
	h := httplimit.Middleware(httplimit.NewGate(e, "shop", httplimit.MaxDelay(49*time.Millisecond), httplimit.Log(discard())))(served())
	statuses := []int{}
	for range 4 {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", http.NoBody))
		statuses = append(statuses, w.Code)
	}
	if !slices.Equal(statuses, []int{200, 429, 429, 429}) {
		t.Errorf("statuses %v", statuses)
	}
	answer, err := e.Check(t.Context(), &engine.Check{Request: rules.Request{Domain: "shop"}, Cost: 1, Peek: true})
	if err != nil {
		t.Fatal(err)
	}
	if answer.Delay != 50*time.Millisecond {
		t.Errorf("the next request waits for %v, want 50ms: only one request was served", answer.Delay)
	}
	for _, r := range answer.Results {
		if r.Rule.Policy == "shop/wide" && r.Remaining != 999 {
			t.Errorf("%d of 1000 remain, want 999", r.Remaining)
		}
	}
}

func TestHTTP_DoesNotServeAClientThatDisconnectsWhileWaiting(t *testing.T) {
	for way, decider := range deciders() {
		t.Run(way, func(t *testing.T) {
			slow := drip(1)
			slow.Units = 1
			slow.WindowSeconds = 3600 // the second waits for an hour
			decided, returned := make(chan struct{}, 2), make(chan struct{}, 2)
			gate := httplimit.NewGate(decider(t, newEngine(t, time.Now, slow)), "shop",
				httplimit.Observe(func(context.Context, *engine.Check, engine.Answer, error) { decided <- struct{}{} }))
			calls := 0
			limited := httplimit.Middleware(gate)(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { calls++ }))
			s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				limited.ServeHTTP(w, r)
				returned <- struct{}{}
			}))
			(&exchange{method: "GET", target: "/", status: 200}).compare(t, "the first request", s)
			receive(t, decided, "the first request is decided")
			receive(t, returned, "the first request is served")
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL, nil)
			if err != nil {
				t.Fatal(err)
			}
			failed := make(chan error, 1)
			go func() {
				_, err := s.Client().Do(request)
				failed <- err
			}()
			receive(t, decided, "the second request is decided")
			cancel()
			receive(t, returned, "the second request ends")
			if err := <-failed; !errors.Is(err, context.Canceled) {
				t.Errorf("client error %v, want context canceled", err)
			}
			if calls != 1 {
				t.Errorf("%d requests were served, want 1", calls)
			}
		})
	}
}

func receive(t *testing.T, from <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-from:
	case <-time.After(timeout):
		t.Fatalf("timed out after %v waiting until %s", timeout, what)
	}
}

func TestHTTP_Responds503WhenTheContextEndsWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Millisecond, cancel)
		h := httplimit.Middleware(httplimit.NewGate(answering(engine.Answer{Allowed: true, Delay: time.Hour}, nil), "shop"))(served())
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil).WithContext(ctx))
		if w.Code != http.StatusServiceUnavailable {
			t.Errorf("status %d, %s", w.Code, w.Body)
		}
	})
}

func TestHTTP_WithoutADecision(t *testing.T) {
	unreachable := &httplimit.UnreachableError{Cause: errors.New("dial 10.0.0.7")}
	tests := map[string]struct {
		err    error
		open   int // status by default
		closed int // status with FailClosed
		detail string
	}{
		"the limiter is unreachable":        {fmt.Errorf("wrapped: %w", unreachable), 200, 503, "the counters are unavailable"},
		"a policy with onStoreFailure Deny": {&engine.RefusedError{Policy: "shop/a"}, 503, 503, "policy shop/a denies requests"},
		"no rules are loaded":               {engine.ErrNoRules, 503, 503, "no rules are loaded yet"},
		"the store fails":                   {errors.New("dial 10.0.0.7"), 503, 503, "the counters are unavailable"},
		"a remote policy with onStoreFailure Deny": {
			&httplimit.ProblemError{Problem: reply.Unavailable(&engine.RefusedError{Policy: "shop/a"})}, 503, 503, "policy shop/a denies requests",
		},
		"the limiter rejects the check": {
			&httplimit.ProblemError{Problem: reply.NewProblem(400, "domain", "domain is 10.0.0.7")}, 500, 500, "could not be checked",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			for want, options := range map[int][]httplimit.Option{test.open: nil, test.closed: {httplimit.FailClosed()}} {
				var observed error
				var logged strings.Builder
				gate := httplimit.NewGate(answering(engine.Answer{}, test.err), "shop", append(options,
					httplimit.Log(slog.New(slog.NewTextHandler(&logged, nil))),
					httplimit.Observe(func(_ context.Context, _ *engine.Check, _ engine.Answer, err error) { observed = err }))...)
				h := httplimit.Middleware(gate)(served())
				refused := gate.Enter(t.Context(), search(), http.Header{})
				if refused != nil && (!errors.Is(refused, test.err) || !strings.Contains(refused.Error(), test.err.Error())) {
					t.Errorf("refused with %v, want it to wrap %v", refused, test.err)
				}
				for range 3 {
					w := httptest.NewRecorder()
					h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
					if w.Code != want || want != 200 && !strings.Contains(w.Body.String(), test.detail) || strings.Contains(w.Body.String(), "10.0.0.7") {
						t.Errorf("status %d, want %d; body %s", w.Code, want, w.Body)
					}
				}
				if !errors.Is(observed, test.err) {
					t.Errorf("observed %v, want %v", observed, test.err)
				}
				if n := strings.Count(logged.String(), "\n"); n != 1 {
					t.Errorf("%d log lines for four requests, want 1:\n%s", n, &logged)
				}
			}
		})
	}
}

func TestNewGate_PanicsWithoutADomain(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("NewGate did not panic without a domain")
		}
	}()
	httplimit.NewGate(answering(engine.Answer{}, nil), "")
}
