package weir_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/weir-dev/weir/go/httplimit"
	"github.com/weir-dev/weir/go/weir"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/reply"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/test/fixture"
)

// discarded is a ResponseWriter that discards the response.
type discarded struct{ header http.Header }

func (d discarded) Header() http.Header         { return d.header }
func (d discarded) Write(b []byte) (int, error) { return len(b), nil }
func (d discarded) WriteHeader(int)             {}

// bareRequest returns a function that lets a Limiter in memory serve a bare request, which a policy counts by its address.
func bareRequest(tb testing.TB, style reply.Style) func() {
	tb.Helper()
	policies, err := weir.Parse([]byte(`{apiVersion: weir.dev/v1alpha1, kind: RateLimitPolicy, metadata: {namespace: shop, name: per-client}, ` +
		`spec: {axis: IP, limit: 100000000, window: 1h}}`))
	if err != nil {
		tb.Fatal(err)
	}
	limiter, err := weir.NewMemory(policies, weir.Gate(httplimit.Style(style)))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = limiter.Close() })
	handler := limiter.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	request, w := httptest.NewRequest(http.MethodGet, "/v1/search", nil), discarded{http.Header{}}
	return func() { handler.ServeHTTP(w, request) }
}

// Other Go libraries take 8 to 14 allocations for such a request.
func TestHandler_TakesFewAllocations(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector makes a sync.Pool forget values")
	}
	for _, style := range []reply.Style{reply.RateLimitHeaders, reply.XRateLimitHeaders, reply.GitHubHeaders} {
		serve := bareRequest(t, style)
		serve()
		if n := testing.AllocsPerRun(1000, serve); n > 6 {
			t.Errorf("%s: %v allocations, want at most 6", style, n)
		}
	}
}

func BenchmarkHandler(b *testing.B) {
	serve := bareRequest(b, reply.GitHubHeaders)
	b.ReportAllocs()
	for b.Loop() {
		serve()
	}
}

// BenchmarkRedis measures a caller that is alone.
func BenchmarkRedis(b *testing.B) {
	server, err := fixture.StartRedis(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = server.Stop() })
	limiter, err := weir.NewRedis(server.URL(), parse(b, perTenant("shop", "100000000", "")), discard(), weir.Timeout(longTimeout))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = limiter.Close() })
	check := engine.Check{Cost: 1, Request: rules.Request{Domain: "shop", Method: http.MethodGet, Path: "/", Headers: map[string]string{"x-tenant-id": "acme"}}}
	b.ReportAllocs()
	for b.Loop() {
		if answer, err := limiter.Check(b.Context(), &check); err != nil || !answer.Allowed {
			b.Fatal(answer, err)
		}
	}
}
