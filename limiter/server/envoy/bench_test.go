package envoy

import (
	"log/slog"
	"testing"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/memstore"
	"github.com/weir-dev/weir/limiter/reply"
)

func benchmark(b *testing.B, units int64, style reply.Style, want ratelimitv3.RateLimitResponse_Code) {
	b.Helper()
	e := engine.New(memstore.New(time.Now), engine.SourceMemory, engine.NewMetrics(prometheus.NewRegistry()), engine.RememberDenials(1000, time.Now))
	swap(b, e, per("tenant", units, day, "tenant"))
	endpoint := newRateLimitEndpoint(&Options{Engine: e, Style: style, Log: slog.New(slog.DiscardHandler)})
	asked := marshal(b, request(describe("tenant=acme")))
	for range 2 {
		if _, err := decideMessage(b.Context(), endpoint, asked); err != nil {
			b.Fatal(err)
		}
	}
	if out, err := answerTo(b.Context(), endpoint, asked); err != nil || out.GetOverallCode() != want {
		b.Fatal(out, err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := decideMessage(b.Context(), endpoint, asked); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkKnownDenial decides a request of a tenant whose denial is cached.
func BenchmarkKnownDenial(b *testing.B) {
	for _, style := range []reply.Style{reply.NoHeaders, reply.RateLimitHeaders} {
		b.Run(string(style), func(b *testing.B) { benchmark(b, 1, style, ratelimitv3.RateLimitResponse_OVER_LIMIT) })
	}
}

// BenchmarkAllowed decides a request of a tenant with many remaining units.
func BenchmarkAllowed(b *testing.B) {
	for _, style := range []reply.Style{reply.NoHeaders, reply.RateLimitHeaders} {
		b.Run(string(style), func(b *testing.B) { benchmark(b, 1_000_000_000, style, ratelimitv3.RateLimitResponse_OK) })
	}
}
