package engine_test

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/lease"
	"github.com/weir-dev/weir/limiter/memstore"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/store"
)

// BenchmarkCheckWithLease checks requests of one tenant far below its limit, which the leases of one replica admit.
func BenchmarkCheckWithLease(b *testing.B) {
	counters := &countingStore{Store: memstore.New(time.Now)}
	leases := lease.New(available{counters}, time.Now)
	e, _ := newLayered(counters, engine.SourceMemory, prometheus.NewRegistry(), store.Layers{Leases: leases})
	hot := rule("shop/a", 1_000_000_000)
	hot.Algorithm, hot.Lease = "SlidingWindowCounter", &rules.Lease{MaxPercent: 10, MaxMilliseconds: 1000}
	e.Swap(index(b, hot))
	acme := map[string]string{"tenant": "acme"}
	for range 100 {
		if _, err := e.Check(b.Context(), request(1, acme)); err != nil {
			b.Fatal(err)
		}
	}
	before := counters.calls()
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		check := request(1, acme)
		for pb.Next() {
			if answer, err := e.Check(b.Context(), check); err != nil || !answer.Allowed {
				b.Errorf("allowed %v, %v", answer.Allowed, err)
				return
			}
		}
	})
	b.ReportMetric(float64(counters.calls()-before)/float64(b.N), "calls/op")
}
