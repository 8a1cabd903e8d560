package engine_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-dev/weir/limiter/denials"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/memstore"
	"github.com/weir-dev/weir/limiter/store"
)

// BenchmarkCheckWithKnownDenial checks requests of tenants that have spent their limit of one policy.
func BenchmarkCheckWithKnownDenial(b *testing.B) {
	counters := &countingStore{Store: memstore.New(time.Now)}
	e, _ := newLayered(counters, engine.SourceMemory, prometheus.NewRegistry(), store.Layers{Denials: denials.NewCache(100_000, time.Now)})
	daily := rule("shop/a", 1)
	daily.WindowSeconds = 24 * 60 * 60
	e.Swap(index(b, daily))
	const tenants = 1000
	checks := make([]*engine.Check, tenants)
	for i := range checks {
		checks[i] = request(1, map[string]string{"tenant": fmt.Sprintf("tenant-%d", i)})
		for range 2 {
			if _, err := e.Check(b.Context(), checks[i]); err != nil {
				b.Fatal(err)
			}
		}
	}
	before := counters.calls()
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		answer, err := e.Check(b.Context(), checks[n%tenants])
		if err != nil || answer.Allowed {
			b.Fatalf("allowed %v, %v", answer.Allowed, err)
		}
		n++
	}
	b.ReportMetric(float64(counters.calls()-before)/float64(n), "calls/op") // each denial is cached for ten seconds
}
