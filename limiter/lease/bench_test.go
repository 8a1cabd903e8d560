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
	leases := lease.New(reliable{counted}, time.Now)
	top := leases.Admit(leases.Borrow(counted))
	c := charge(b, limiter.SlidingWindowCounter, limiter.MaxUnits, time.Minute)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := top.Spend(b.Context(), []limiter.Charge{c}); err != nil {
				b.Error(err)
				return
			}
		}
	})
}
