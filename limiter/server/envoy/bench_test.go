package envoy

import (
	"log/slog"
	"testing"
	"time"

	ratelimitextensionsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-dev/weir/limiter/denials"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/memstore"
	"github.com/weir-dev/weir/limiter/reply"
)

func benchmark(b *testing.B, units int64, style reply.Style, want ratelimitv3.RateLimitResponse_Code) {
	b.Helper()
	e := newCaching()
	swap(b, e, per("tenant", units, day, "tenant"))
	endpoint := newRateLimitEndpoint(&Options{Engine: e, Style: style, Log: slog.New(slog.DiscardHandler)})
	asked, sent := marshal(b, request(describe("tenant=acme"))), make([]byte, 0, 1<<10)
	for range 2 {
		if _, err := decideMessage(b.Context(), endpoint, asked, sent); err != nil {
			b.Fatal(err)
		}
	}
	if out, err := answerTo(b.Context(), endpoint, asked); err != nil || out.GetOverallCode() != want {
		b.Fatal(out, err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := decideMessage(b.Context(), endpoint, asked, sent); err != nil {
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

// The targets of a call, of the engine, the store in memory and the codec together. They leave room for the race detector, under which a
// sync.Pool drops objects at random.
const (
	mostAllocations      = 20 // with one descriptor
	mostAllocationsThree = 28 // with three
	mostAllocationsAuthz = 28 // of ext_authz
)

func TestHandle_AllocatesLittle(t *testing.T) {
	for name, test := range map[string]struct {
		units       int64
		descriptors []string
		most        float64
	}{
		"known denial":      {1, []string{"tenant=acme"}, mostAllocations},
		"allowed":           {1_000_000_000, []string{"tenant=acme"}, mostAllocations},
		"three descriptors": {1_000_000_000, []string{"tenant=acme", "user=carol", "path=/v1"}, mostAllocationsThree},
	} {
		t.Run(name, func(t *testing.T) {
			e := newCaching()
			swap(t, e, per("path", test.units, day, "path"), per("tenant", test.units, day, "tenant"), per("user", test.units, day, "user"))
			endpoint := newRateLimitEndpoint(&Options{Engine: e, Style: reply.RateLimitHeaders, Log: slog.New(slog.DiscardHandler)})
			descriptors := make([]*ratelimitextensionsv3.RateLimitDescriptor, len(test.descriptors))
			for i, entry := range test.descriptors {
				descriptors[i] = describe(entry)
			}
			asked := marshal(t, request(descriptors...))
			wantAllocations(t, test.most, func() error {
				_, err := decideMessage(t.Context(), endpoint, asked, nil)
				return err
			})
		})
	}
}

func TestExtAuthz_AllocatesLittle(t *testing.T) {
	e := engine.New(memstore.New(time.Now), engine.SourceMemory, engine.NewMetrics(prometheus.NewRegistry()))
	rule := search()
	rule.Units = 1_000_000_000
	swap(t, e, rule)
	endpoint := newAuthEndpoint(&Options{Engine: e, Style: reply.RateLimitHeaders, Log: slog.New(slog.DiscardHandler)})
	asked := marshal(t, &authv3.CheckRequest{Attributes: attributes("GET", "/v1/search")})
	wantAllocations(t, mostAllocationsAuthz, func() error {
		_, _, err := endpoint.serve(t.Context(), asked, nil)
		return err
	})
}

func wantAllocations(t *testing.T, most float64, call func() error) {
	t.Helper()
	most += emptiedPools
	got := testing.AllocsPerRun(200, func() {
		if err := call(); err != nil {
			t.Error(err)
		}
	})
	t.Logf("%v allocations", got)
	if got > most {
		t.Errorf("%v allocations, want at most %v", got, most)
	}
}

// newCaching returns an engine that caches denials, on counters in memory.
func newCaching() *engine.Engine {
	known := denials.NewCache(1000, time.Now)
	return engine.New(known.Answers(known.Learns(memstore.New(time.Now))), engine.SourceMemory, engine.NewMetrics(prometheus.NewRegistry()))
}
