package httplimit_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/weir-dev/weir/go/httplimit"
	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/reply"
	"github.com/weir-dev/weir/limiter/rules"
)

// nothing is a ResponseWriter that discards the response.
type nothing struct{ header http.Header }

func (n nothing) Header() http.Header         { return n.header }
func (n nothing) Write(b []byte) (int, error) { return len(b), nil }
func (n nothing) WriteHeader(int)             {}

// BenchmarkHTTP measures what the middleware adds to a request of a browser that one policy counts.
func BenchmarkHTTP(b *testing.B) {
	counter := tenantRule("a", limiter.MaxUnits)
	counter.Algorithm = limiter.SlidingWindowCounter
	names := httplimit.OnlyHeaders("x-tenant-id")
	plain := httplimit.Style(reply.NoHeaders)
	benchmarks := []struct {
		name    string
		rules   []rules.Rule
		options []httplimit.Option
		http    []httplimit.HTTPOption
	}{
		{"no policy", nil, nil, nil},
		{"RateLimit", []rules.Rule{counter}, nil, nil},
		{"RateLimit, one header passed", []rules.Rule{counter}, nil, []httplimit.HTTPOption{names}},
		{"None, one header passed", []rules.Rule{counter}, []httplimit.Option{plain}, []httplimit.HTTPOption{names}},
	}
	next := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	for _, bench := range benchmarks {
		b.Run(bench.name, func(b *testing.B) {
			gate := httplimit.NewGate(newEngine(b, time.Now, bench.rules...), "shop", bench.options...)
			h := httplimit.Middleware(gate, bench.http...)(next)
			r := httptest.NewRequest(http.MethodGet, "http://api.shop.example/v1/search", nil)
			for _, name := range []string{"X-Tenant-Id", "Accept", "Accept-Encoding", "Accept-Language", "User-Agent", "Cookie", "Referer", "Sec-Fetch-Mode"} {
				r.Header.Set(name, "acme")
			}
			w := nothing{http.Header{}}
			b.ReportAllocs()
			for b.Loop() {
				h.ServeHTTP(w, r)
			}
		})
	}
}

// BenchmarkRemote calls a limiter on the same machine.
func BenchmarkRemote(b *testing.B) {
	remote := newRemote(b, serve(b, limiterOf(newEngine(b, time.Now, tenantRule("a", 1), drip(0)))).URL)
	c := search()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := remote.Check(b.Context(), c); err != nil {
			b.Fatal(err)
		}
	}
}
