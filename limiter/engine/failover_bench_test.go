package engine_test

import (
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/failover"
	"github.com/weir-dev/weir/limiter/local"
	"github.com/weir-dev/weir/limiter/memstore"
)

// BenchmarkCheckWithFailover measures a request that the store decides, followed by the local counters.
func BenchmarkCheckWithFailover(b *testing.B) {
	store := &unreliableStore{Store: memstore.New(time.Now), unavailable: none, fails: none}
	counters := local.New(1<<20, time.Now)
	e := engine.New(failover.New(store, counters, time.Now, slog.New(slog.DiscardHandler)), engine.SourceRedis,
		engine.NewMetrics(prometheus.NewRegistry()), engine.RememberDenials(100, time.Now))
	e.Swap(index(b, fixed("shop/a", 1_000_000_000), fixed("shop/b", 1_000_000_000)))
	check := request(1, acme())
	b.ReportAllocs()
	for b.Loop() {
		if _, err := e.Check(b.Context(), check); err != nil {
			b.Fatal(err)
		}
	}
}
