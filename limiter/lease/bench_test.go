package lease_test

import (
	"testing"
	"time"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/lease"
	"github.com/weir-dev/weir/limiter/memstore"
)

// BenchmarkTake takes units of one counter, and calls the store when the lease is used up.
func BenchmarkTake(b *testing.B) {
	counted := memstore.New(time.Now)
	leases := lease.New(counted, reliable{counted}, time.Now)
	c := charge(b, limiter.SlidingWindowCounter, limiter.MaxUnits, time.Minute)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			c := c
			if taken, ok := leases.Take(&c, time.Now()); ok {
				_ = taken.Decision()
				continue
			}
			if _, err := leases.Spend(b.Context(), []limiter.Charge{c}); err != nil {
				b.Error(err)
				return
			}
		}
	})
}
