package engine_test

import (
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-dev/weir/limiter/denials"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/failover"
	"github.com/weir-dev/weir/limiter/local"
	"github.com/weir-dev/weir/limiter/memstore"
	"github.com/weir-dev/weir/limiter/store"
)

// BenchmarkCheckWithFailover measures a request that the store decides, followed by the local counters.
func BenchmarkCheckWithFailover(b *testing.B) {
	remote := &unreliableStore{Store: memstore.New(time.Now), unavailable: none, fails: none}
	counters := local.New(1<<20, time.Now)
	e, _ := newLayered(nil, engine.SourceRedis, prometheus.NewRegistry(), store.Layers{
		Failover: failover.New(remote, counters, time.Now, slog.New(slog.DiscardHandler)), Denials: denials.NewCache(100, time.Now),
	})
	e.Swap(index(b, fixed("shop/a", 1_000_000_000), fixed("shop/b", 1_000_000_000)))
	check := request(1, acme())
	b.ReportAllocs()
	for b.Loop() {
		if _, err := e.Check(b.Context(), check); err != nil {
			b.Fatal(err)
		}
	}
}
