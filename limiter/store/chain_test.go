package store_test

import (
	"context"
	"errors"
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

// After a reset by another replica, a replica forgets what it holds: a lease, what it spent locally, and a denial.
func TestWasReset_ReachesEachLayer(t *testing.T) {
	now := time.Date(2026, 11, 1, 0, 0, 1, 0, time.UTC)
	clock := func() time.Time { return now }
	counters := &switchable{Store: memstore.New(clock)}
	layers := store.Layers{
		Leases: lease.New(counters, clock), Denials: denials.NewCache(10, clock),
		Failover: failover.New(counters, local.New(1<<20, clock), clock, slog.New(slog.DiscardHandler)),
	}
	chain := store.New(nil, layers, prometheus.NewRegistry())
	limit, err := limiter.NewLimit(limiter.FixedWindow, 1000, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	charge := limiter.Charge{Key: "a", Limit: limit, Cost: 1}
	origin := func(c limiter.Charge) (limiter.Origin, bool) {
		t.Helper()
		now = now.Add(time.Millisecond)
		decisions, err := chain.Spend(t.Context(), []limiter.Charge{c})
		if err != nil {
			t.Fatal(err)
		}
		return decisions[0].Origin, decisions[0].Allowed
	}

	leased := charge
	leased.Lease = &limiter.LeaseTerms{MaxPercent: 10, MaxAge: time.Second}
	for from := limiter.OriginStore; from != limiter.OriginLease; {
		from, _ = origin(leased)
	}
	chain.WasReset("a")
	if from, _ := origin(leased); from != limiter.OriginStore {
		t.Errorf("after the reset of a leased counter: origin %v, want the store", from)
	}

	counters.isUnavailable = true
	all := charge
	all.Key, all.Cost = "b", 1000
	if _, isAllowed := origin(all); !isAllowed {
		t.Fatal("the first request of an outage is denied")
	}
	chain.WasReset("b")
	if _, isAllowed := origin(all); !isAllowed {
		t.Error("units that were spent locally before the reset count")
	}
	counters.isUnavailable = false

	one := charge
	one.Key = "c"
	full := one
	full.Cost = 1000
	origin(full)
	origin(one)
	if from, _ := origin(one); from != limiter.OriginDenial {
		t.Fatalf("origin %v, want a known denial", from)
	}
	chain.WasReset("c")
	if from, _ := origin(one); from != limiter.OriginStore {
		t.Errorf("after the reset: origin %v, want the store", from)
	}
}

// switchable is a store that can become unavailable.
type switchable struct {
	*memstore.Store

	isUnavailable bool
}

func (s *switchable) Unavailable(string) bool { return s.isUnavailable }

func (s *switchable) ReportUsage(context.Context, limiter.Charge) (uncounted bool, err error) {
	return true, nil
}

func (s *switchable) ResetOnce(ctx context.Context, key, id string) error {
	return s.Reset(ctx, []string{key}, id)
}

// Calls that this process did not make are not measured.
func TestChain_MeasuresTheCallsOfTheCounters(t *testing.T) {
	for name, test := range map[string]struct {
		err  error
		want int
	}{
		"an answer":  {nil, 1},
		"an error":   {limiter.ErrReplyLost, 1},
		"overloaded": {limiter.ErrOverloaded, 0},
	} {
		registry := prometheus.NewPedanticRegistry()
		chain := store.New(failing{test.err}, store.Layers{}, registry)
		if _, err := chain.Spend(t.Context(), []limiter.Charge{{Key: "a"}}); !errors.Is(err, test.err) {
			t.Errorf("%s: %v", name, err)
		}
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, family := range families {
			if family.GetName() == "weir_store_duration_seconds" {
				if got := family.GetMetric()[0].GetHistogram().GetSampleCount(); got != uint64(test.want) {
					t.Errorf("%s: %d calls are measured, want %d", name, got, test.want)
				}
			}
		}
	}
}

// failing is a store whose calls return an error.
type failing struct{ err error }

func (f failing) Spend(context.Context, []limiter.Charge) ([]limiter.Decision, error) {
	return nil, f.err
}

func (f failing) Peek(context.Context, []limiter.Charge) ([]limiter.Decision, error) {
	return nil, f.err
}

func (f failing) Refund(context.Context, []limiter.Refund) error { return f.err }

func (f failing) Reset(context.Context, []string, string) error { return f.err }
