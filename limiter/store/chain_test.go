package store_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/bound"
	"github.com/weir-dev/weir/limiter/denials"
	"github.com/weir-dev/weir/limiter/failover"
	"github.com/weir-dev/weir/limiter/lease"
	"github.com/weir-dev/weir/limiter/local"
	"github.com/weir-dev/weir/limiter/memstore"
	"github.com/weir-dev/weir/limiter/store"
	"github.com/weir-dev/weir/limiter/storetest"
)

// remote is a store that is always available.
type remote struct{ limiter.Store }

func (remote) Unavailable(string) bool { return false }

func (remote) ReportUsage(context.Context, limiter.Charge) (uncounted bool, err error) {
	return true, nil
}

func (r remote) ResetOnce(ctx context.Context, key, id string) error {
	return r.Reset(ctx, []string{key}, id)
}

// All combinations of layers decide like the counters alone.
func TestChain_Conforms(t *testing.T) {
	t.Parallel()
	for combination := range 1 << 4 {
		has := func(layer int) bool { return combination&(1<<layer) != 0 }
		t.Run(fmt.Sprintf("leases %t, denials %t, bound %t, failover %t", has(0), has(1), has(2), has(3)), func(t *testing.T) {
			t.Parallel()
			factory := storetest.Over(inMemory, func(next limiter.Store, clock *storetest.Clock) limiter.Store {
				var layers store.Layers
				if has(0) {
					layers.Leases = lease.New(remote{next}, clock.Now)
				}
				if has(1) {
					layers.Denials = denials.NewCache(1000, clock.Now)
				}
				if has(2) {
					layers.Bound = bound.New(bound.Identifiers{Max: 1_000_000}, clock.Now)
				}
				if has(3) {
					layers.Failover = failover.New(remote{next}, local.New(1<<20, clock.Now), clock.Now, slog.New(slog.DiscardHandler))
				}
				return store.New(next, layers, prometheus.NewRegistry())
			})
			storetest.Scenarios(t, factory)
			storetest.HistoriesOf(t, factory, 100)
			storetest.Concurrency(t, factory)
		})
	}
}

func inMemory(clock func() time.Time) *memstore.Store { return memstore.New(clock) }
