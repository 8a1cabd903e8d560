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

// mostAllocations is the bar of a call with one descriptor: the engine, the store in memory and the codec. It leaves room for the race
// detector, under which a sync.Pool drops objects at random.
const mostAllocations = 24

func TestHandle_AllocatesLittle(t *testing.T) {
	for name, units := range map[string]int64{"known denial": 1, "allowed": 1_000_000_000} {
		t.Run(name, func(t *testing.T) {
			e := engine.New(memstore.New(time.Now), engine.SourceMemory, engine.NewMetrics(prometheus.NewRegistry()), engine.RememberDenials(1000, time.Now))
			swap(t, e, per("tenant", units, day, "tenant"))
			endpoint := newRateLimitEndpoint(&Options{Engine: e, Style: reply.RateLimitHeaders, Log: slog.New(slog.DiscardHandler)})
			asked := marshal(t, request(describe("tenant=acme")))
			got := testing.AllocsPerRun(200, func() {
				if _, err := decideMessage(t.Context(), endpoint, asked); err != nil {
					t.Error(err)
				}
			})
			if got > mostAllocations {
				t.Errorf("%v allocations, want at most %d", got, mostAllocations)
			}
		})
	}
}
