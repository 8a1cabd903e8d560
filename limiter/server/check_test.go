package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/failover"
	"github.com/weir-dev/weir/limiter/local"
	"github.com/weir-dev/weir/limiter/memstore"
	"github.com/weir-dev/weir/limiter/reply"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/matching"
)

// noon is the current time of the tests.
var noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

var tenant = rules.Identifier{From: rules.FromHeader, Name: "x-tenant-id"}

func tenantRule(name string, units int64) rules.Rule {
	return rules.Rule{
		Policy: "shop/" + name, Domain: "shop", Axis: "Tenant", Identifier: tenant,
		Algorithm: limiter.SlidingWindowLog, Units: units, WindowSeconds: 60,
	}
}

func shadowRule(name string, units int64) rules.Rule {
	r := tenantRule(name, units)
	r.Shadow = true
	return r
}

func withDenial(r rules.Rule) rules.Rule {
	r.Denial = &rules.Denial{Message: "buy more", Headers: []rules.DenialHeader{{Name: "x-plan", Value: "free"}}}
	return r
}

func newIndex(t testing.TB, revision string, list ...rules.Rule) *matching.Index {
	t.Helper()
	index, err := matching.NewIndex(rules.Set{Rules: list}, revision, "weir:")
	if err != nil {
		t.Fatal(err)
	}
	return index
}

func newEngine(t testing.TB, store limiter.Store, list ...rules.Rule) *engine.Engine {
	t.Helper()
	e := engine.New(store, engine.SourceMemory, engine.NewMetrics(prometheus.NewRegistry()))
	e.Swap(newIndex(t, "sha256:1", list...))
	return e
}

func newHandler(t testing.TB, e *engine.Engine) http.Handler {
	t.Helper()
	return NewHandler(Options{Engine: e, Style: reply.RateLimitHeaders, Metrics: NewMetrics(prometheus.NewRegistry()), Log: discard()})
}

func atNoon() *memstore.Store { return memstore.New(func() time.Time { return noon }) }

func post(h http.Handler, body string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1/check", strings.NewReader(body)))
	return w
}

const acme = `{"domain":"shop","path":"/v1/search","headers":{"X-Tenant-ID":"acme"}}`

// compact removes the indentation from an expected body.
func compact(t *testing.T, body string) string {
	t.Helper()
	var b bytes.Buffer
	if err := json.Compact(&b, []byte(body)); err != nil {
		t.Fatal(err)
	}
	return b.String() + "\n"
}

func TestCheck_Answers(t *testing.T) {
	tests := map[string]struct {
		rules  []rules.Rule
		bodies []string // sent in order; the test compares the last answer
		status int
		want   string
	}{
		"no policy matches": {
			nil,
			[]string{acme},
			http.StatusOK,
			`{"allowed":true,"policy":"","limit":0,"remaining":0,"resetAfterMs":0,"retryAfterMs":0,"delayMs":0,
			  "source":"none","revision":"sha256:1","results":[]}`,
		},
		"allowed by one policy": {
			[]rules.Rule{tenantRule("a", 3)},
			[]string{acme},
			http.StatusOK,
			`{"allowed":true,"policy":"shop/a","limit":3,"remaining":2,"resetAfterMs":60000,"retryAfterMs":0,"delayMs":0,
			  "source":"memory","revision":"sha256:1","results":[
			    {"policy":"shop/a","axis":"Tenant","identifier":"acme","algorithm":"SlidingWindowLog","window":"1m0s","tier":"",
			     "allowed":true,"limit":3,"remaining":2,"resetAfterMs":60000,"retryAfterMs":0,"shadow":false}]}`,
		},
		"denied by one of two policies": {
			[]rules.Rule{tenantRule("a", 3), tenantRule("b", 1)},
			[]string{acme, acme},
			http.StatusTooManyRequests,
			`{"allowed":false,"policy":"shop/b","limit":1,"remaining":0,"resetAfterMs":60000,"retryAfterMs":60000,"delayMs":0,
			  "source":"memory","revision":"sha256:1","results":[
			    {"policy":"shop/b","axis":"Tenant","identifier":"acme","algorithm":"SlidingWindowLog","window":"1m0s","tier":"",
			     "allowed":false,"limit":1,"remaining":0,"resetAfterMs":60000,"retryAfterMs":60000,"shadow":false},
			    {"policy":"shop/a","axis":"Tenant","identifier":"acme","algorithm":"SlidingWindowLog","window":"1m0s","tier":"",
			     "allowed":true,"limit":3,"remaining":2,"resetAfterMs":60000,"retryAfterMs":0,"shadow":false}]}`,
		},
		"denied with the response of the policy": {
			[]rules.Rule{withDenial(tenantRule("a", 1))},
			[]string{acme, acme},
			http.StatusTooManyRequests,
			`{"allowed":false,"policy":"shop/a","limit":1,"remaining":0,"resetAfterMs":60000,"retryAfterMs":60000,"delayMs":0,
			  "source":"memory","revision":"sha256:1","results":[
			    {"policy":"shop/a","axis":"Tenant","identifier":"acme","algorithm":"SlidingWindowLog","window":"1m0s","tier":"",
			     "allowed":false,"limit":1,"remaining":0,"resetAfterMs":60000,"retryAfterMs":60000,"shadow":false}],
			  "denial":{"status":429,"message":"buy more","contentType":"text/plain; charset=utf-8","headers":[{"name":"x-plan","value":"free"}]}}`,
		},
		"a cost above the limit can never pass": {
			[]rules.Rule{tenantRule("a", 3)},
			[]string{strings.Replace(acme, "{", `{"cost":4,`, 1)},
			http.StatusTooManyRequests,
			`{"allowed":false,"policy":"shop/a","limit":3,"remaining":3,"resetAfterMs":0,"retryAfterMs":null,"delayMs":0,
			  "source":"memory","revision":"sha256:1","results":[
			    {"policy":"shop/a","axis":"Tenant","identifier":"acme","algorithm":"SlidingWindowLog","window":"1m0s","tier":"",
			     "allowed":false,"limit":3,"remaining":3,"resetAfterMs":0,"retryAfterMs":null,"shadow":false}]}`,
		},
		"a shadow policy denies nothing and leads nothing": {
			[]rules.Rule{shadowRule("a", 1)},
			[]string{acme, acme},
			http.StatusOK,
			`{"allowed":true,"policy":"","limit":0,"remaining":0,"resetAfterMs":0,"retryAfterMs":0,"delayMs":0,
			  "source":"memory","revision":"sha256:1","results":[
			    {"policy":"shop/a","axis":"Tenant","identifier":"acme","algorithm":"SlidingWindowLog","window":"1m0s","tier":"",
			     "allowed":false,"limit":1,"remaining":0,"resetAfterMs":60000,"retryAfterMs":60000,"shadow":true}]}`,
		},
		"a peek charges nothing": {
			[]rules.Rule{tenantRule("a", 1)},
			[]string{strings.Replace(acme, "{", `{"peek":true,`, 1)},
			http.StatusOK,
			`{"allowed":true,"policy":"shop/a","limit":1,"remaining":1,"resetAfterMs":0,"retryAfterMs":0,"delayMs":0,
			  "source":"memory","revision":"sha256:1","results":[
			    {"policy":"shop/a","axis":"Tenant","identifier":"acme","algorithm":"SlidingWindowLog","window":"1m0s","tier":"",
			     "allowed":true,"limit":1,"remaining":1,"resetAfterMs":0,"retryAfterMs":0,"shadow":false}]}`,
		},
		"the second through a leaky bucket waits its turn": {
			[]rules.Rule{{
				Policy: "shop/drip", Domain: "shop", Axis: "Tenant", Identifier: rules.Identifier{From: rules.FromHeader, Name: "x-tenant-id"},
				Algorithm: limiter.LeakyBucket, Units: 2, WindowSeconds: 1, Burst: 3,
			}},
			[]string{acme, acme},
			http.StatusOK,
			`{"allowed":true,"policy":"shop/drip","limit":2,"remaining":2,"resetAfterMs":1000,"retryAfterMs":0,"delayMs":500,
			  "source":"memory","revision":"sha256:1","results":[
			    {"policy":"shop/drip","axis":"Tenant","identifier":"acme","algorithm":"LeakyBucket","window":"1s","tier":"",
			     "allowed":true,"limit":2,"remaining":2,"resetAfterMs":1000,"retryAfterMs":0,"shadow":false}]}`,
		},
		"an identifier that is missing, and one that needs escapes": {
			[]rules.Rule{tenantRule("a", 9), {
				Policy: "shop/q", Domain: "shop", Axis: "Custom", Identifier: rules.Identifier{From: rules.FromQuery, Name: "k"},
				Algorithm: limiter.SlidingWindowLog, Units: 2, WindowSeconds: 1,
			}},
			[]string{`{"domain":"shop","path":"/?k=%22%0a<é>"}`},
			http.StatusOK,
			`{"allowed":true,"policy":"shop/q","limit":2,"remaining":1,"resetAfterMs":1000,"retryAfterMs":0,"delayMs":0,
			  "source":"memory","revision":"sha256:1","results":[
			    {"policy":"shop/q","axis":"Custom","identifier":"\"\n\u003cé\u003e","algorithm":"SlidingWindowLog","window":"1s","tier":"",
			     "allowed":true,"limit":2,"remaining":1,"resetAfterMs":1000,"retryAfterMs":0,"shadow":false},
			    {"policy":"shop/a","axis":"Tenant","identifier":"-","algorithm":"SlidingWindowLog","window":"1m0s","tier":"",
			     "allowed":true,"limit":9,"remaining":8,"resetAfterMs":60000,"retryAfterMs":0,"shadow":false}]}`,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			h := newHandler(t, newEngine(t, atNoon(), test.rules...))
			var w *httptest.ResponseRecorder
			for _, body := range test.bodies {
				w = post(h, body)
			}
			if w.Code != test.status {
				t.Errorf("status %d, want %d", w.Code, test.status)
			}
			if diff := cmp.Diff(compact(t, test.want), w.Body.String()); diff != "" {
				t.Errorf("body (-want +got):\n%s", diff)
			}
			if got := w.Header().Get("Content-Type"); got != "application/json" {
				t.Errorf("Content-Type %q", got)
			}
		})
	}
}

func TestCheck_RejectsInvalidRequests(t *testing.T) {
	slowCaller := &net.OpError{Op: "read", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(10, 0, 0, 7)}, Err: os.ErrDeadlineExceeded}
	tests := map[string]struct {
		request *http.Request
		status  int
		header  http.Header
		want    string
	}{
		"another method": {
			httptest.NewRequest(http.MethodGet, "/v1/check", nil), http.StatusMethodNotAllowed,
			http.Header{"Allow": {"POST"}},
			`{"type":"about:blank","title":"Method Not Allowed","status":405,"detail":"the method must be POST, not GET"}`,
		},
		"another path": {
			httptest.NewRequest(http.MethodPost, "/v2/check", strings.NewReader(acme)), http.StatusNotFound, nil,
			`{"type":"about:blank","title":"Not Found","status":404,"detail":"path /v2/check does not exist; use POST /v1/check or /v1/auth/{domain}"}`,
		},
		"a body that ends early": {
			httptest.NewRequest(http.MethodPost, "/v1/check", iotest.ErrReader(io.ErrUnexpectedEOF)), http.StatusBadRequest, nil,
			`{"type":"about:blank","title":"Bad Request","status":400,"detail":"body ended early","field":"body"}`,
		},
		"a body that comes too slowly": {
			httptest.NewRequest(http.MethodPost, "/v1/check", iotest.ErrReader(slowCaller)), http.StatusBadRequest, nil,
			`{"type":"about:blank","title":"Bad Request","status":400,"detail":"body did not arrive within 10s","field":"body"}`,
		},
		"a path that a ServeMux would redirect": {
			httptest.NewRequest(http.MethodPost, "http://limiter//v1/check", strings.NewReader(acme)), http.StatusNotFound, nil,
			`{"type":"about:blank","title":"Not Found","status":404,"detail":"path //v1/check does not exist; use POST /v1/check or /v1/auth/{domain}"}`,
		},
		"bad JSON": {
			httptest.NewRequest(http.MethodPost, "/v1/check", strings.NewReader(`{"domain":}`)), http.StatusBadRequest, nil,
			`{"type":"about:blank","title":"Bad Request","status":400,
			  "detail":"body is not valid JSON: invalid character '}' looking for beginning of value at byte 11","field":"body"}`,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w := httptest.NewRecorder()
			newHandler(t, newEngine(t, atNoon())).ServeHTTP(w, test.request)
			if w.Code != test.status {
				t.Errorf("status %d, want %d", w.Code, test.status)
			}
			if diff := cmp.Diff(compact(t, test.want), w.Body.String()); diff != "" {
				t.Errorf("body (-want +got):\n%s", diff)
			}
			want := http.Header{"Content-Type": {"application/problem+json"}}
			maps.Copy(want, test.header)
			if diff := cmp.Diff(want, w.Header()); diff != "" {
				t.Errorf("headers (-want +got):\n%s", diff)
			}
		})
	}
}

func withType(r *http.Request, contentType string) *http.Request {
	r.Header.Set("Content-Type", contentType)
	return r
}

func TestWithoutRulesThereIsNoDecision(t *testing.T) {
	w := post(newHandler(t, engine.New(atNoon(), engine.SourceMemory, engine.NewMetrics(prometheus.NewRegistry()))), acme)
	if w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), `"detail":"no rules are loaded yet; see /readyz for the reason"`) {
		t.Errorf("status %d: %s", w.Code, w.Body)
	}
}

func TestCheck_ReadsTheBodyAsJSONWithAnyContentType(t *testing.T) {
	h := newHandler(t, newEngine(t, atNoon()))
	for _, contentType := range []string{"", "application/json", "application/json; charset=utf-8", "application/x-www-form-urlencoded"} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, withType(httptest.NewRequest(http.MethodPost, "/v1/check", strings.NewReader(acme)), contentType))
		if w.Code != http.StatusOK {
			t.Errorf("Content-Type %q: status %d", contentType, w.Code)
		}
	}
}

// A client can influence how large a check is, and gateways serve requests whose check fails: so a check that cannot be decoded is denied.
func TestCheck_DecidesBodiesOfAnySize(t *testing.T) {
	padded := func(size int) string {
		const begin = `{"domain":"shop","headers":{"x-tenant-id":"acme"},"path":"/`
		return begin + strings.Repeat("a", size-len(begin)-2) + `"}`
	}
	values := func(n, size int) string { // the body has n of the characters that begin a value
		body := `{"domain":"shop","headers":{"x-tenant-id":"acme"},"query":{"q":[""` + strings.Repeat(`,""`, n-6)
		return body + strings.Repeat(" ", size-len(body)-3) + `]}}`
	}
	for name, test := range map[string]struct {
		body    string
		status  int
		defects string
	}{
		"a small one":       {padded(smallBody), 200, ""},
		"a large one":       {padded(smallBody + 1), 200, ""},
		"the largest":       {padded(maxBody), 200, ""},
		"one byte more":     {padded(maxBody + 1), 429, `"defects":["size"]`},
		"ten times as much": {padded(10 * maxBody), 429, `"defects":["size"]`},
		"a small one with as many values as it can have": {values(21_000, smallBody), 200, ""},
		"the largest number of values":                   {values(maxValues, 3*smallBody), 200, ""},
		"one value more":                                 {values(maxValues+1, 3*smallBody), 429, `"defects":["size"]`},
		"parameters over the bound":                      {padded(smallBody)[:smallBody-2] + "?" + strings.Repeat("&a", maxValues+1) + `"}`, 200, ""},
	} {
		t.Run(name, func(t *testing.T) {
			for _, body := range []io.Reader{strings.NewReader(test.body), io.MultiReader(strings.NewReader(test.body))} { // of known length, and of unknown
				m := NewMetrics(prometheus.NewRegistry())
				h := NewHandler(Options{Engine: newEngine(t, atNoon(), tenantRule("a", 3)), Style: reply.RateLimitHeaders, Metrics: m, Log: discard()})
				w := call(h, httptest.NewRequest(http.MethodPost, "/v1/check", body))
				counted := 0
				if test.status == 429 {
					counted = 1
				}
				if got := testutil.ToFloat64(m.defects.WithLabelValues("check", "size")); w.Code != test.status || !strings.Contains(w.Body.String(), test.defects) || int(got) != counted {
					t.Errorf("status %d, %v counted, %s; want %d and %s", w.Code, got, w.Body, test.status, test.defects)
				}
			}
		})
	}
}

// Large bodies share a bound, so that many of them do not take all memory. A client behind a gateway can send them.
func TestCheck_BoundsTheLargeBodiesInProgress(t *testing.T) {
	h := newHandler(t, newEngine(t, atNoon(), tenantRule("a", 300)))
	body := `{"domain":"shop","headers":{"x-tenant-id":"acme"},"path":"/` + strings.Repeat("a", maxBody-1000) + `"}`
	var senders sync.WaitGroup
	held, release := make(chan struct{}), make(chan struct{})
	for range maxLargeBytes / maxBody {
		rest := &gatedReader{Reader: strings.NewReader(body), after: smallBody + 1, held: held, release: release}
		senders.Go(func() {
			if w := call(h, httptest.NewRequest(http.MethodPost, "/v1/check", rest)); w.Code != http.StatusOK {
				t.Errorf("status %d: %s", w.Code, w.Body)
			}
		})
		<-held
	}
	want := `{"allowed":false,"policy":"","limit":0,"remaining":0,"resetAfterMs":0,"retryAfterMs":1000,"delayMs":0,` +
		`"source":"none","revision":"","results":[],"defects":["size"]}`
	if w := post(h, body); w.Code != http.StatusTooManyRequests || strings.TrimSpace(w.Body.String()) != want {
		t.Errorf("one more: status %d: %s, want 429 and %s", w.Code, w.Body, want)
	}
	if w := post(h, acme); w.Code != http.StatusOK {
		t.Errorf("a small body: status %d: %s", w.Code, w.Body)
	}
	close(release)
	senders.Wait()
	if w := post(h, body); w.Code != http.StatusOK {
		t.Errorf("afterwards: status %d: %s", w.Code, w.Body)
	}
}

// gatedReader blocks when it has returned some bytes. It sends to held then, and waits for release.
type gatedReader struct {
	io.Reader
	after         int
	held, release chan struct{}
}

func (r *gatedReader) Read(p []byte) (int, error) {
	if r.after == 0 {
		r.after = -1
		r.held <- struct{}{}
		<-r.release
	}
	if r.after > 0 {
		p = p[:min(len(p), r.after)]
	}
	n, err := r.Reader.Read(p)
	if r.after > 0 {
		r.after -= n
	}
	return n, err
}

func TestCheck_NamesAndCountsDefects(t *testing.T) {
	m := NewMetrics(prometheus.NewRegistry())
	h := NewHandler(Options{Engine: newEngine(t, atNoon(), tenantRule("a", 3)), Style: reply.RateLimitHeaders, Metrics: m, Log: discard()})
	w := post(h, `{"domain":"shop","headers":{"x-tenant-id":"acme","x-a":1,"x-b":2},"cost":0}`)
	if w.Code != http.StatusOK || !strings.HasSuffix(strings.TrimSpace(w.Body.String()), `],"defects":["value","cost"]}`) {
		t.Errorf("status %d: %s", w.Code, w.Body)
	}
	for reason, want := range map[string]float64{"value": 1, "cost": 1, "size": 0} {
		if got := testutil.ToFloat64(m.defects.WithLabelValues("check", reason)); got != want {
			t.Errorf("%s: %v counted, want %v", reason, got, want)
		}
	}
}

// brittleStore fails while broken is set.
type brittleStore struct {
	limiter.Store
	broken atomic.Bool
}

func (s *brittleStore) Spend(ctx context.Context, charges []limiter.Charge) ([]limiter.Decision, error) {
	if s.broken.Load() {
		return nil, errors.New("dial tcp 127.0.0.1:6379: connection refused")
	}
	return s.Store.Spend(ctx, charges)
}

func TestCheck_ReportsAStoreFailureWithoutLocalMode(t *testing.T) {
	store := &brittleStore{Store: atNoon()}
	store.broken.Store(true)
	registry := prometheus.NewRegistry()
	h := NewHandler(Options{Engine: newEngine(t, store, tenantRule("a", 3)), Style: reply.RateLimitHeaders, Metrics: NewMetrics(registry), Log: slog.New(slog.DiscardHandler)})

	for range 3 {
		w := post(h, acme)
		want := `{"type":"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity",
		  "title":"Temporary Reduced Capacity","status":503,
		  "detail":"the counters are unavailable; the request may or may not have been counted"}`
		if diff := cmp.Diff(compact(t, want), w.Body.String()); diff != "" {
			t.Fatalf("body (-want +got):\n%s", diff)
		}
		wantHeader := http.Header{"Content-Type": {"application/problem+json"}, "Retry-After": {"1"}}
		if diff := cmp.Diff(wantHeader, w.Header()); diff != "" || w.Code != http.StatusServiceUnavailable {
			t.Fatalf("status %d, headers (-want +got):\n%s", w.Code, diff)
		}
	}
	if n := testutil.CollectAndCount(registry, "weir_decision_duration_seconds"); n != 2 {
		t.Errorf("%d series of weir_decision_duration_seconds, want one for each HTTP endpoint", n)
	}
	store.broken.Store(false)
	if w := post(h, acme); w.Code != http.StatusOK {
		t.Errorf("after recovery: status %d", w.Code)
	}
}

func TestCheck_DuringConcurrentSwaps(t *testing.T) {
	e := newEngine(t, memstore.New(time.Now), tenantRule("a", 1_000_000))
	h := newHandler(t, e)
	indexes := []*matching.Index{
		newIndex(t, "sha256:1", tenantRule("a", 1_000_000)),
		newIndex(t, "sha256:2", tenantRule("a", 1_000_000), tenantRule("b", 1_000_000)),
	}
	var callers sync.WaitGroup
	for range 4 {
		callers.Go(func() {
			for range 200 {
				w := post(h, acme)
				var got reply.Answer
				if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != http.StatusOK {
					t.Errorf("status %d: %v", w.Code, err)
					return
				}
				if want := fmt.Sprintf("sha256:%d", len(got.Results)); got.Revision != want {
					t.Errorf("%d results under revision %s", len(got.Results), got.Revision)
				}
			}
		})
	}
	for i := range 200 {
		e.Swap(indexes[i%2])
	}
	callers.Wait()
}

// mostAllocations is the target of a request to the HTTP check: the endpoint, the engine and the store in memory.
const mostAllocations = 34

func TestCheck_AllocatesLittle(t *testing.T) {
	call := repeatedCheck(t)
	got := testing.AllocsPerRun(200, func() {
		if code := call(); code != http.StatusOK {
			t.Errorf("status %d", code)
		}
	})
	t.Logf("%v allocations", got)
	if got > mostAllocations {
		t.Errorf("%v allocations, want at most %d", got, mostAllocations)
	}
}

func BenchmarkCheck(b *testing.B) {
	call := repeatedCheck(b)
	b.ReportAllocs()
	for b.Loop() {
		if code := call(); code != http.StatusOK {
			b.Fatalf("status %d", code)
		}
	}
}

// repeatedCheck returns a function that sends the same allowed request to the HTTP check, and returns the status.
func repeatedCheck(t testing.TB) func() (status int) {
	t.Helper()
	const body = `{"domain":"shop","method":"GET","host":"api.shop.example","path":"/v1/search","query":{"q":["x"]},` +
		`"headers":{"x-tenant-id":"acme","x-plan":"free"},"clientIP":"203.0.113.7"}`
	rule := tenantRule("tenant-daily", limiter.MaxUnits)
	rule.Algorithm = limiter.SlidingWindowCounter
	h := newHandler(t, newEngine(t, memstore.New(time.Now), rule))
	request := httptest.NewRequest(http.MethodPost, "/v1/check", nil)
	request.Header.Set("Content-Type", "application/json")
	request.ContentLength = int64(len(body))
	reader := strings.NewReader(body)
	request.Body = io.NopCloser(reader)
	w := httptest.NewRecorder()
	return func() int {
		reader.Reset(body)
		w.Body.Reset()
		clear(w.Header())
		h.ServeHTTP(w, request)
		return w.Code
	}
}

func BenchmarkDecode(b *testing.B) {
	body := []byte(`{"domain":"shop","method":"GET","host":"api.shop.example","path":"/v1/search","query":{"q":["x"]},` +
		`"headers":{"x-tenant-id":"acme","x-plan":"free"},"clientIP":"203.0.113.7"}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, _, bad := decode(body); bad != nil {
			b.Fatalf("%+v", *bad)
		}
	}
}

// headerOf returns a header by its exact name, which http.Header.Get would change.
func headerOf(w *httptest.ResponseRecorder, name string) string {
	return strings.Join(w.Header()[name], ", ")
}

// Unavailable and ReportUsage make the store one that can be unavailable.
func (s *brittleStore) Unavailable(string) bool { return s.broken.Load() }

func (*brittleStore) ReportUsage(context.Context, limiter.Charge) (uncounted bool, err error) {
	return true, nil
}

func TestCheck_AppliesOnStoreFailureOfThePolicy(t *testing.T) {
	store := &brittleStore{Store: atNoon()}
	log := slog.New(slog.DiscardHandler)
	e := engine.New(failover.New(store, local.New(1<<20, func() time.Time { return noon }), time.Now, log),
		engine.SourceRedis, engine.NewMetrics(prometheus.NewRegistry()))
	deny := tenantRule("deny", 3)
	deny.Domain, deny.OnStoreFailure = "bank", rules.DenyOnFailure
	e.Swap(newIndex(t, "sha256:1", tenantRule("a", 3), deny))
	h := NewHandler(Options{Engine: e, Style: reply.RateLimitHeaders, Metrics: NewMetrics(prometheus.NewRegistry()), Log: log})
	bank := strings.Replace(acme, `"shop"`, `"bank"`, 1)
	for _, body := range []string{acme, bank} {
		if w := post(h, body); w.Code != http.StatusOK || strings.Contains(w.Body.String(), "local") {
			t.Errorf("while the store is available: %d %s", w.Code, w.Body)
		}
	}
	store.broken.Store(true)
	w := post(h, acme)
	if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"remaining":1,`) || strings.Count(w.Body.String(), `"source":"local"`) != 1 {
		t.Errorf("a policy with local decisions: %d %s", w.Code, w.Body)
	}
	if got, want := headerOf(w, "RateLimit"), `"shop/a";r=1;t=60`; got != want {
		t.Errorf("RateLimit: %s, want %s", got, want)
	}
	w = post(h, bank)
	want := `{"type":"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity",
	  "title":"Temporary Reduced Capacity","status":503,"detail":"policy shop/deny denies requests while its counters are unavailable"}`
	if diff := cmp.Diff(compact(t, want), w.Body.String()); diff != "" || w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != "1" {
		t.Errorf("a policy that denies: status %d, %v, body (-want +got):\n%s", w.Code, w.Header(), diff)
	}
}

func TestCheck_ReportsClaimsDescriptorsAndTiersInItsResults(t *testing.T) {
	byClaim := tenantRule("claim", 5)
	byClaim.Identifier = rules.Identifier{From: rules.FromClaim, Name: "org.id"}
	byClaim.Tiers = []rules.Tier{{Name: "staff", When: rules.When{Groups: []string{"staff"}}, Units: 50}}
	byDescriptor := tenantRule("descriptor", 5)
	byDescriptor.Identifier = rules.Identifier{From: rules.FromDescriptor, Name: "user"}
	byDescriptor.Match.Descriptors = []rules.DescriptorMatch{{Key: "generic_key", Value: "login"}, {Key: "user"}}
	h := newHandler(t, newEngine(t, atNoon(), byClaim, byDescriptor))
	w := post(h, `{"domain":"shop","claims":{"org":{"id":12345678901234567890},"groups":["staff"]},
	  "descriptors":[[{"key":"user","value":"bob"}],[{"key":"generic_key","value":"login"},{"key":"user","value":"ann"}]]}`)
	for _, want := range []string{
		`"identifier":"12345678901234567890","algorithm":"SlidingWindowLog","window":"1m0s","tier":"staff","allowed":true,"limit":50,`,
		`"identifier":"ann","algorithm":"SlidingWindowLog","window":"1m0s","tier":"","allowed":true,"limit":5,`,
	} {
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("no %s in %s", want, w.Body)
		}
	}
	r := authRequest("/v1/auth/shop", http.Header{"X-Jwt-Payload": {`{"org":{"id":1.0e1},"groups":"staff"}`}})
	endpoints := newHandlerWith(t, newEngine(t, atNoon(), byClaim), func(o *Options) { o.ClaimsHeader = "x-jwt-payload" })
	if got := headerOf(call(endpoints, r), "RateLimit-Policy"); got != `"shop/claim";q=50;w=60` {
		t.Errorf("through /v1/auth: %s", got)
	}
}

// ResetOnce implements failover.Remote.
func (s *brittleStore) ResetOnce(ctx context.Context, key, _ string) error {
	return s.Reset(ctx, []string{key}, "")
}
