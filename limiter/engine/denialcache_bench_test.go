package engine_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/memstore"
)

// BenchmarkCheckOfAKnownOffender asks for tenants that have spent everything, one policy matching.
func BenchmarkCheckOfAKnownOffender(b *testing.B) {
	store := &countingStore{Store: memstore.New(time.Now)}
	e := engine.New(store, engine.SourceMemory, engine.NewMetrics(prometheus.NewRegistry()), engine.RememberDenials(100_000, time.Now))
	daily := rule("shop/a", 1)
	daily.WindowSeconds = 24 * 60 * 60
	e.Swap(index(b, daily))
	const tenants = 1000
	checks := make([]*engine.Check, tenants)
	for i := range checks {
		checks[i] = ask(1, map[string]string{"tenant": fmt.Sprintf("tenant-%d", i)})
		for range 2 {
			if _, err := e.Check(b.Context(), checks[i]); err != nil {
				b.Fatal(err)
			}
		}
	}
	asked := store.asks()
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		answer, err := e.Check(b.Context(), checks[n%tenants])
		if err != nil || answer.Allowed {
			b.Fatalf("allowed %v, %v", answer.Allowed, err)
		}
		n++
	}
	b.ReportMetric(float64(store.asks()-asked)/float64(n), "asks/op") // each is remembered for ten seconds
}
