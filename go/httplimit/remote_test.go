package httplimit_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-dev/weir/go/httplimit"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/reply"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/test/fixture"
)

func search() *engine.Check {
	return &engine.Check{Cost: 1, Request: rules.Request{Domain: "shop", Path: "/", Headers: map[string]string{"x-tenant-id": "acme"}}}
}

func TestNewRemote_RejectsInvalidURLs(t *testing.T) {
	for text, want := range map[string]string{
		"http://weir:8080": "", "https://weir/below/": "",
		"weir:8080":                  `invalid limiter URL "weir:8080": must have the form http://host:port`,
		"":                           `invalid limiter URL "": must have the form http://host:port`,
		"ftp://user:secret@weir":     `invalid limiter URL "ftp://user:xxxxx@weir": must have the form http://host:port`,
		"http://weir:80 80":          `invalid limiter URL: invalid port ":80 80" after host`,
		"http:///v1/check?no=domain": `invalid limiter URL "http:///v1/check?no=domain": must have the form http://host:port`,
	} {
		if _, err := httplimit.NewRemote(text); fmt.Sprint(err) != want && (err != nil || want != "") {
			t.Errorf("%q: error %v, want %s", text, err, want)
		}
	}
}

func TestNewRemote_ValidatesOptions(t *testing.T) {
	for _, timeout := range []time.Duration{0, -time.Second, time.Microsecond} {
		if _, err := httplimit.NewRemote("http://weir:8080", httplimit.Timeout(timeout)); err == nil || !strings.Contains(err.Error(), "at least 1ms") {
			t.Errorf("timeout %v: %v", timeout, err)
		}
	}
	remote, err := httplimit.NewRemote(serve(t, limiterOf(newEngine(t, time.Now))).URL, nil, httplimit.Transport(nil), httplimit.Timeout(timeout))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(remote.Close)
	if answer, err := remote.Check(t.Context(), search()); err != nil || !answer.Allowed {
		t.Errorf("%+v, %v", answer, err)
	}
}

func TestRemote_ReusesConnections(t *testing.T) {
	e := newEngine(t, time.Now, tenantRule("a", 3))
	limiter := limiterOf(e)
	var opened, asked atomic.Int64
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1)%5 == 0 { // a 503 must be read to its end too
			reply.Unavailable(engine.ErrNoRules).Write(w)
			return
		}
		limiter.ServeHTTP(w, r)
	}))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			opened.Add(1)
		}
	}
	s.Start()
	t.Cleanup(s.Close)
	remote := newRemote(t, s.URL)
	for range 50 {
		_, _ = remote.Check(t.Context(), search())
	}
	if asked.Load() != 50 || opened.Load() != 1 {
		t.Errorf("%d checks over %d connections, want 50 over 1", asked.Load(), opened.Load())
	}

	// With concurrent checks there are at most as many connections as checks, and they are kept for the next checks.
	const width = 16
	for range 5 {
		var group sync.WaitGroup
		for range width {
			group.Go(func() { _, _ = remote.Check(t.Context(), search()) })
		}
		group.Wait()
	}
	// net/http may dial for a check and then use a connection that has become idle; it keeps the dialed connection.
	if n := opened.Load(); n > 2*width {
		t.Errorf("%d connections for at most %d concurrent checks", n, width)
	}
}

func TestGate_AppliesFailClosedWhenTheLimiterStops(t *testing.T) {
	s := httptest.NewServer(limiterOf(newEngine(t, time.Now, tenantRule("a", 9))))
	remote := newRemote(t, s.URL)
	h := func(options ...httplimit.Option) http.Handler {
		return httplimit.Middleware(httplimit.NewGate(remote, "shop", append(options, httplimit.Log(discard()))...))(served())
	}
	open, closed := h(), h(httplimit.FailClosed())
	for _, handler := range []http.Handler{open, closed} {
		if w := get(handler); w.Code != http.StatusOK || !limited(w) {
			t.Fatalf("while the limiter runs: %d, %v", w.Code, w.Header())
		}
	}
	s.Close()
	if w := get(open); w.Code != http.StatusOK || limited(w) {
		t.Errorf("limiter stopped, fail open: %d, %v", w.Code, w.Header())
	}
	if w := get(closed); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != "1" {
		t.Errorf("limiter stopped, fail closed: %d, %v", w.Code, w.Header())
	}
}

// limited reports whether the response has a RateLimit header.
func limited(w *httptest.ResponseRecorder) bool {
	for name := range w.Header() {
		if strings.EqualFold(name, "RateLimit") {
			return true
		}
	}
	return false
}

func get(h http.Handler) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	return w
}

// Decisions end at the timeout. After five consecutive timeouts the Remote does not call the limiter for a second.
func TestRemote_StopsCallingALimiterThatTimesOut(t *testing.T) {
	limiter := limiterOf(newEngine(t, time.Now, tenantRule("a", 1000)))
	var calls atomic.Int64
	var healthy atomic.Bool
	s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		if !healthy.Load() {
			_, _ = io.Copy(io.Discard, r.Body) // without this the server does not detect that the caller has left
			<-r.Context().Done()
			return
		}
		limiter.ServeHTTP(w, r)
	}))
	remote := newRemote(t, s.URL, httplimit.Timeout(20*time.Millisecond))
	var unreachable *httplimit.UnreachableError
	for range 5 {
		began := time.Now()
		_, err := remote.Check(t.Context(), search())
		if !errors.As(err, &unreachable) || !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("error %v", err)
		}
		if took := time.Since(began); took < 20*time.Millisecond || took > timeout {
			t.Errorf("the check ended after %v, want about 20 ms", took)
		}
	}
	before := calls.Load()
	for range 100 {
		if _, err := remote.Check(t.Context(), search()); !errors.As(err, &unreachable) || !strings.Contains(err.Error(), "not called") {
			t.Fatalf("error %v", err)
		}
	}
	if n := calls.Load() - before; n != 0 {
		t.Errorf("%d calls while the circuit is open, want 0", n)
	}
	healthy.Store(true)
	fixture.Await(t, "the limiter is called again", func() bool {
		_, err := remote.Check(t.Context(), search())
		return err == nil
	})
}

func TestHTTP_DoesNotServeAClientThatDisconnectsBeforeTheDecision(t *testing.T) {
	called := make(chan struct{}, 1)
	s := serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		called <- struct{}{}
		<-r.Context().Done()
	}))
	h := httplimit.Middleware(httplimit.NewGate(newRemote(t, s.URL), "shop"))(served())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan *httptest.ResponseRecorder, 1)
	go func() {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil).WithContext(ctx))
		ended <- w
	}()
	receive(t, called, "the limiter is called")
	cancel()
	if w := <-ended; w.Code != http.StatusServiceUnavailable {
		t.Errorf("status %d, %s", w.Code, w.Body)
	}
}

// stamped adds a header to requests.
type stamped struct{ http.RoundTripper }

func (s stamped) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Traceparent", "00-1")
	return s.RoundTripper.RoundTrip(r)
}

func TestTransport_CarriesTheChecks(t *testing.T) {
	limiter := limiterOf(newEngine(t, time.Now))
	got := make(chan string, 1)
	s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got <- r.Header.Get("Traceparent")
		limiter.ServeHTTP(w, r)
	}))
	if _, err := newRemote(t, s.URL, httplimit.Transport(stamped{s.Client().Transport})).Check(t.Context(), search()); err != nil {
		t.Fatal(err)
	}
	if trace := <-got; trace != "00-1" {
		t.Errorf("Traceparent %q", trace)
	}
}

func TestRemote_DoesNotCountCanceledCallersAsFailures(t *testing.T) {
	limiter := limiterOf(newEngine(t, time.Now, tenantRule("a", 1000)))
	s := serve(t, limiter)
	remote := newRemote(t, s.URL)
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	for range 10 {
		var unreachable *httplimit.UnreachableError
		if _, err := remote.Check(canceled, search()); !errors.Is(err, context.Canceled) || errors.As(err, &unreachable) {
			t.Fatalf("error %v", err)
		}
	}
	if _, err := remote.Check(t.Context(), search()); err != nil {
		t.Errorf("after ten canceled callers: %v", err)
	}
}

// A request that is too large for the limiter is refused, although requests are served while the limiter is unreachable.
func TestRemote_RefusesRequestsThatAreTooLargeForTheLimiter(t *testing.T) {
	e := newEngine(t, time.Now, tenantRule("a", 1000))
	gate := httplimit.NewGate(newRemote(t, serve(t, limiterOf(e)).URL), "shop", httplimit.Log(discard()))
	all, named := httplimit.Middleware(gate)(served()), httplimit.Middleware(gate, httplimit.OnlyHeaders("x-tenant-id"))(served())
	many := func(n int) http.Header {
		h := http.Header{}
		for i := range n {
			h.Set(fmt.Sprintf("X-Pad-%d", i), "x")
		}
		return h
	}
	tests := map[string]struct {
		handler http.Handler
		target  string
		header  http.Header
		status  int
	}{
		"a long path":                          {all, "/" + strings.Repeat("a", 1<<20), nil, 431},
		"a long query":                         {all, "/?q=" + strings.Repeat("a", 1<<20), nil, 431},
		"a long header":                        {all, "/", http.Header{"X-Pad": {strings.Repeat("a", 1<<20)}}, 431},
		"a header of 64 KiB":                   {all, "/", http.Header{"X-Pad": {strings.Repeat("a", 64<<10)}, "X-Tenant-Id": {"a"}}, 200},
		"more parameters than are read":        {all, "/?" + strings.Repeat("a&", 40_000), nil, 200},
		"many headers":                         {all, "/", many(500), 200},
		"many headers, of which one is passed": {named, "/", many(500), 200},
		"many parameters":                      {all, "/?" + strings.Repeat("a&", 1000), nil, 200},
		"many different parameters":            {all, "/?" + names(1000), nil, 200},
		"bytes that are not UTF-8":             {all, "/%FF?%FE=%FD", http.Header{"X-Tenant-Id": {"\xff"}}, 200},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r, w := httptest.NewRequest(http.MethodGet, test.target, nil), httptest.NewRecorder()
			if test.header != nil {
				r.Header = test.header
			}
			test.handler.ServeHTTP(w, r)
			if w.Code != test.status || w.Code == 200 && !limited(w) || w.Code != 200 && !strings.Contains(w.Body.String(), "too large") {
				t.Errorf("status %d, want %d with rate-limit headers if 200; %s", w.Code, test.status, w.Body)
			}
		})
	}
}

// The size of an answer must not decide: clients choose their identifiers, and each policy that matches has a result with the identifier.
func TestRemote_DeniesALongIdentifierThatManyPoliciesCount(t *testing.T) {
	var list []rules.Rule
	for i := range 18 {
		list = append(list, tenantRule(fmt.Sprintf("p%02d", i), 1))
	}
	limiter := serve(t, limiterOf(newEngine(t, time.Now, list...)))
	handler := httplimit.Middleware(httplimit.NewGate(newRemote(t, limiter.URL), "shop", httplimit.Log(discard())))(served())
	for i, want := range []int{200, 429, 429} {
		r, w := httptest.NewRequest(http.MethodGet, "/", http.NoBody), httptest.NewRecorder()
		r.Header.Set("X-Tenant-Id", strings.Repeat("a", 60_000))
		handler.ServeHTTP(w, r)
		if w.Code != want || !limited(w) {
			t.Errorf("request %d: status %d, %s; want %d with rate-limit headers", i, w.Code, w.Body, want)
		}
	}
}

// A client that causes answers that are too large is refused, and other clients are decided.
func TestRemote_RefusesOnlyTheClientWhoseAnswerIsTooLarge(t *testing.T) {
	limiter := limiterOf(newEngine(t, time.Now, tenantRule("a", 1000)))
	var large atomic.Bool
	s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if large.Load() {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"allowed":true,"policy":"`+strings.Repeat("a", 1<<20)+`"}`)
			return
		}
		limiter.ServeHTTP(w, r)
	}))
	handler := httplimit.Middleware(httplimit.NewGate(newRemote(t, s.URL), "shop", httplimit.Log(discard())))(served())
	large.Store(true)
	for range 10 { // more than open the circuit breaker
		if w := get(handler); w.Code != http.StatusRequestHeaderFieldsTooLarge {
			t.Fatalf("status %d, %s", w.Code, w.Body)
		}
	}
	large.Store(false)
	if w := get(handler); w.Code != http.StatusOK || !limited(w) {
		t.Errorf("the next client: status %d, %v, want a decision", w.Code, w.Header())
	}
}

// names is a query of n parameters with different names.
func names(n int) string {
	var query strings.Builder
	for i := range n {
		fmt.Fprintf(&query, "a%d&", i)
	}
	return query.String()
}

func TestRemote_RejectsChecksThatTheAPIDoesNotSupport(t *testing.T) {
	remote := newRemote(t, "http://127.0.0.1:1")
	noDelay, claims := search(), search()
	noDelay.NoDelay = true
	claims.Request.Claims = map[string]any{"f": func() {}}
	for want, c := range map[string]*engine.Check{"NoDelay": noDelay, "func()": claims} {
		var rejected *httplimit.ProblemError
		if _, err := remote.Check(t.Context(), c); !errors.As(err, &rejected) || rejected.Problem.Status != 400 || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want it to contain %q", err, want)
		}
	}
}

// A response that no limiter writes counts as unreachable.
func TestRemote_TreatsForeignResponsesAsUnreachable(t *testing.T) {
	const valid = `{"allowed":true,"delayMs":0,"source":"redis","revision":"r","results":[]}`
	const one = `{"allowed":true,"results":[{"policy":"a","algorithm":"%s","window":"%s","limit":%d,"allowed":true,"retryAfterMs":0}]}`
	tests := map[string]struct {
		status      int
		kind, body  string
		unreachable bool
		want        string // in the error
	}{
		"the response of a limiter":       {200, "application/json", valid, false, ""},
		"the response of a newer limiter": {200, "application/json; charset=utf-8", `{"allowed":true,"new":[1]}`, false, ""},
		"status 429 with allowed true":    {429, "application/json", valid, true, "unexpected response 429 Too Many Requests, not from a limiter: allowed is true"},
		"another media type":              {200, "text/html", valid, true, `unknown Content-Type "text/html"`},
		"a denial of a proxy":             {429, "text/plain", "slow down", true, "not from a limiter"},
		"invalid JSON":                    {200, "application/json", "{", true, "unexpected end of JSON"},
		"an unknown algorithm":            {200, "application/json", fmt.Sprintf(one, "Dice", "1s", 1), false, ""},
		"a limit above the known bound":   {200, "application/json", fmt.Sprintf(one, "FixedWindow", "1s", 1<<40), false, ""},
		"a window in another form":        {200, "application/json", fmt.Sprintf(one, "FixedWindow", "P1M", 1), false, ""},
		"a result without a policy":       {200, "application/json", `{"allowed":true,"results":[{}]}`, true, "results[0]: has no policy"},
		"allowed is no boolean":           {200, "application/json", `{"allowed":"yes"}`, true, "allowed"},
		"no object":                       {200, "application/json", `[]`, true, "cannot unmarshal array"},
		"a redirect":                      {302, "text/html", "", true, "302 Found"},
		"not found":                       {404, "application/problem+json", `{"type":"about:blank"}`, true, "404 Not Found"},
		"a gateway without a limiter":     {503, "text/plain", "no healthy upstream", true, "503"},
		"a problem of a gateway":          {503, "application/problem+json", `{"type":"about:blank"}`, true, `unknown problem type "about:blank"`},
		"a problem with invalid JSON":     {400, "application/problem+json", "{", true, "unexpected end of JSON"},
		"a limiter rejects the check":     {400, "application/problem+json", `{"type":"about:blank","title":"Bad Request","detail":"no"}`, false, "400 Bad Request: no"},
		"a decision that is too large":    {200, "application/json", `"` + strings.Repeat("a", 1<<20) + `"`, false, "larger than 1048576 bytes"},
		"a response of the largest size":  {200, "application/json", `"` + strings.Repeat("a", 1<<20-2) + `"`, true, "cannot unmarshal string"},
		"a denial that is too large":      {429, "application/json", `"` + strings.Repeat("a", 1<<20) + `"`, false, "larger than 1048576 bytes"},
		"a large page of another server":  {200, "text/html", strings.Repeat("a", 1<<20+1), true, "larger than 1048576 bytes"},
		"a large error of another server": {500, "application/json", strings.Repeat("a", 1<<20+1), true, "larger than 1048576 bytes"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", test.kind)
				w.Header().Set("Location", "/elsewhere")
				w.WriteHeader(test.status)
				_, _ = io.WriteString(w, test.body)
			}))
			_, err := newRemote(t, s.URL).Check(t.Context(), search())
			var unreachable *httplimit.UnreachableError
			if errors.As(err, &unreachable) != test.unreachable || (err != nil) != (test.want != "") {
				t.Fatalf("error %v", err)
			}
			if err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want it to contain %q", err, test.want)
			}
		})
	}
}

// A limiter can be newer than the program. What the program cannot read of a denial must not turn it into an unreachable limiter, because
// then the request is served.
func TestRemote_AppliesDenialsOfNewerLimiters(t *testing.T) {
	const denial = `{"allowed":false,"policy":"shop/a","limit":%[1]s,"retryAfterMs":2000,"results":[{"policy":"shop/a","axis":"IP","identifier":"203.0.113.7",
		"algorithm":%[2]s,"window":%[3]s,"allowed":false,"limit":%[1]s,"remaining":0,"retryAfterMs":2000}]}`
	for name, body := range map[string]string{
		"a known denial":               fmt.Sprintf(denial, `3`, `"FixedWindow"`, `"1h0m0s"`),
		"an unknown algorithm":         fmt.Sprintf(denial, `3`, `"Dice"`, `"1h0m0s"`),
		"a limit out of bounds":        fmt.Sprintf(denial, `9000000000000`, `"FixedWindow"`, `"1h0m0s"`),
		"a limit of another type":      fmt.Sprintf(denial, `"3 or so"`, `"FixedWindow"`, `"1h0m0s"`),
		"a window out of bounds":       fmt.Sprintf(denial, `3`, `"FixedWindow"`, `"87600h0m0s"`),
		"a window in days":             fmt.Sprintf(denial, `3`, `"FixedWindow"`, `"1d"`),
		"an algorithm of another type": fmt.Sprintf(denial, `3`, `{"name":"Dice"}`, `"1h0m0s"`),
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(http.StatusTooManyRequests)
				_, _ = io.WriteString(w, body)
			}))
			served := false
			handler := httplimit.Middleware(httplimit.NewGate(newRemote(t, s.URL), "shop"))(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served = true }))
			for range 10 { // more than open the circuit breaker
				w := httptest.NewRecorder()
				handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", http.NoBody))
				if w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") != "2" || served {
					t.Fatalf("status %d, served %v, Retry-After %q: want a denial", w.Code, served, w.Header().Get("Retry-After"))
				}
			}
		})
	}
}

// An incomplete response counts as unreachable, and the check is not retried.
func TestRemote_DoesNotRetryAfterAnIncompleteResponse(t *testing.T) {
	var calls atomic.Int64
	s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		calls.Add(1)
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, `{"allowed":`)
	}))
	var unreachable *httplimit.UnreachableError
	if _, err := newRemote(t, s.URL).Check(t.Context(), search()); !errors.As(err, &unreachable) || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("error %v", err)
	}
	if n := calls.Load(); n != 1 {
		t.Errorf("%d calls, want 1", n)
	}
}
