package server

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/rules"
)

// instantStore decides without counting. The benchmark therefore measures only the endpoint and the engine.
type instantStore struct{ limiter.Store }

func (instantStore) Spend(_ context.Context, charges []limiter.Charge) ([]limiter.Decision, error) {
	decisions := make([]limiter.Decision, len(charges))
	for i, c := range charges {
		decisions[i] = limiter.Decision{Allowed: true, Limit: c.Limit.Units(), Remaining: 1, ResetAfter: time.Minute}
	}
	return decisions, nil
}

// tenThousandRules returns 10,000 rules of one domain. A request for /v1/service4711/search matches three of them: one by path, one
// by host, and one that matches every request.
func tenThousandRules() []rules.Rule {
	const n = 10_000
	list := make([]rules.Rule, 0, n)
	for i := range n {
		r := tenantRule(fmt.Sprintf("p%05d", i), 100)
		switch {
		case i == 0:
		case i%2 == 0:
			r.Match.Hosts = []string{fmt.Sprintf("h%d.shop.example", i)}
		default:
			r.Match.Paths = []rules.PathMatch{{Type: rules.PathPrefix, Value: fmt.Sprintf("/v1/service%d", i)}}
			r.Match.Methods = []string{http.MethodGet}
		}
		list = append(list, r)
	}
	return list
}

// maxP99 is the maximum for the 99th percentile of the decision time, without the store.
const maxP99 = 200 * time.Microsecond

// minCalls is the minimum number of calls for a significant 99th percentile.
const minCalls = 20_000

// BenchmarkEndpointsWithTenThousandPolicies fails if the 99th percentile exceeds the maximum. It needs -benchtime=20000x or more:
//
//	go test -run '^$' -bench EndpointsWithTenThousandPolicies -benchtime 20000x ./limiter/server
func BenchmarkEndpointsWithTenThousandPolicies(b *testing.B) {
	h := newHandler(b, newEngine(b, instantStore{}, tenThousandRules()...))
	const body = `{"domain":"shop","method":"GET","host":"h4712.shop.example","path":"/v1/service4711/search","query":{"q":["x"]},` +
		`"headers":{"x-tenant-id":"acme","x-plan":"free","user-agent":"curl/8","accept":"*/*"},"clientIP":"203.0.113.7"}`
	reader := strings.NewReader(body)
	check := httptest.NewRequest(http.MethodPost, "/v1/check", nil)
	check.Body, check.ContentLength = io.NopCloser(reader), int64(len(body))
	auth := httptest.NewRequest(http.MethodGet, "/v1/auth/shop", nil)
	auth.Header = http.Header{
		"X-Forwarded-Method": {"GET"}, "X-Forwarded-Uri": {"/v1/service4711/search?q=x"}, "X-Forwarded-Host": {"h4712.shop.example"},
		"X-Forwarded-For": {"203.0.113.7"}, "X-Tenant-Id": {"acme"}, "X-Plan": {"free"}, "User-Agent": {"curl/8"}, "Accept": {"*/*"},
	}
	b.Run("check", func(b *testing.B) { measure(b, h, check, func() { reader.Reset(body) }) })
	b.Run("auth", func(b *testing.B) { measure(b, h, auth, func() {}) })
}

func measure(b *testing.B, h http.Handler, request *http.Request, rewind func()) {
	b.Helper()
	took := make([]time.Duration, 0, minCalls)
	w := httptest.NewRecorder()
	b.ReportAllocs()
	for b.Loop() {
		rewind()
		w.Body.Reset()
		clear(w.Header())
		began := time.Now()
		h.ServeHTTP(w, request)
		took = append(took, time.Since(began))
	}
	if w.Code != http.StatusOK || strings.Count(headerOf(w, "RateLimit-Policy"), "shop/p") != 3 {
		b.Fatalf("status %d, %v: %s", w.Code, w.Header(), w.Body)
	}
	slices.Sort(took)
	at := func(percent int) time.Duration { return took[len(took)*percent/100] }
	b.ReportMetric(float64(at(50).Nanoseconds())/1e3, "p50-µs")
	b.ReportMetric(float64(at(99).Nanoseconds())/1e3, "p99-µs")
	if len(took) >= minCalls && at(99) >= maxP99 {
		b.Errorf("99th percentile %v of %d calls, want less than %v", at(99), len(took), maxP99)
	}
}
