package failover_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/failover"
	"github.com/weir-dev/weir/limiter/local"
	"github.com/weir-dev/weir/limiter/memstore"
	"github.com/weir-dev/weir/limiter/storetest"
)

// recovers is a Store that is always in the moment after an outage.
type recovers struct{ *failover.Store }

func (s recovers) Spend(ctx context.Context, charges []limiter.Charge) ([]limiter.Decision, error) {
	if err := s.Recovering(ctx, time.Hour); err != nil {
		return nil, err
	}
	return s.Store.Spend(ctx, charges)
}

func (s recovers) Peek(ctx context.Context, charges []limiter.Charge) ([]limiter.Decision, error) {
	if err := s.Recovering(ctx, time.Hour); err != nil {
		return nil, err
	}
	return s.Store.Peek(ctx, charges)
}

func TestStore_Conforms(t *testing.T) {
	storetest.Run(t, overMemory(func(s *failover.Store) limiter.Store { return s }))
}

// Histories do not apply: their clock can go back, and that of a failover.Store must not.
func TestStore_ConformsWhileItRecovers(t *testing.T) {
	factory := overMemory(func(s *failover.Store) limiter.Store { return recovers{s} })
	t.Run("scenarios", func(t *testing.T) { storetest.Scenarios(t, factory) })
	t.Run("concurrency", func(t *testing.T) { storetest.Concurrency(t, factory) })
}

// overMemory returns the factory of a Store above counters in memory.
func overMemory(wrap func(*failover.Store) limiter.Store) storetest.Factory {
	inMemory := func(clock func() time.Time) *memstore.Store { return memstore.New(clock) }
	return storetest.Over(inMemory, func(next limiter.Store, clock *storetest.Clock) limiter.Store {
		counters := next.(*memstore.Store) //nolint:forcetypeassert // inMemory made it
		return wrap(failover.New(&remote{Store: counters, unavailable: none, fails: none}, local.New(1<<20, clock.Now), clock.Now, slog.New(slog.DiscardHandler)))
	})
}
