package lease_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/lease"
	"github.com/weir-dev/weir/limiter/memstore"
)

// world is a store, and the leases of one replica on it. The time is now.
type world struct {
	*memstore.Store
	*lease.Leases

	top, below  limiter.Store // all layers, and the one that borrows
	now         time.Time
	unavailable bool
	local       bool // the store decides as if it was unavailable
	spends      []limiter.Charge
	refunds     []limiter.Refund
	refundErr   error
}

func newWorld() *world {
	w := &world{now: time.Date(2026, 11, 1, 0, 0, 1, 0, time.UTC)}
	w.Store = memstore.New(func() time.Time { return w.now })
	w.Leases = lease.New(store{w}, func() time.Time { return w.now })
	w.below = w.Borrow(store{w})
	w.top = w.Admit(w.below)
	return w
}

// store is the store below the leases.
type store struct{ *world }

func (s store) Unavailable(string) bool { return s.unavailable }

func (s store) Spend(ctx context.Context, charges []limiter.Charge) ([]limiter.Decision, error) {
	s.spends = append(s.spends, charges...)
	decisions, err := s.Store.Spend(ctx, charges)
	for i := range decisions {
		if s.local {
			decisions[i].Origin = limiter.OriginLocal
		}
	}
	return decisions, err
}

func (s store) Refund(ctx context.Context, refunds []limiter.Refund) error {
	s.refunds = append(s.refunds, refunds...)
	if s.refundErr != nil {
		return s.refundErr
	}
	return s.Store.Refund(ctx, refunds)
}

func charge(t testing.TB, algorithm limiter.Algorithm, units int64, window time.Duration) limiter.Charge {
	t.Helper()
	limit, err := limiter.NewLimit(algorithm, units, window)
	if err != nil {
		t.Fatal(err)
	}
	return limiter.Charge{Key: "key", Limit: limit, Cost: 1, Lease: &limiter.LeaseTerms{MaxPercent: 10, MaxAge: time.Second}}
}

// decide decides a charge as the engine does.
func (w *world) decide(t testing.TB, c limiter.Charge) limiter.Decision {
	t.Helper()
	decisions, err := w.top.Spend(t.Context(), []limiter.Charge{c})
	if err != nil {
		t.Fatal(err)
	}
	return decisions[0]
}

// isAdmitted decides a charge, and reports whether a lease admits it.
func (w *world) isAdmitted(t testing.TB, c limiter.Charge) bool {
	t.Helper()
	_, err := w.Admit(unasked{}).Spend(t.Context(), []limiter.Charge{c})
	return err == nil
}

// unasked is a store that fails.
type unasked struct{ limiter.Store }

func (unasked) Spend(context.Context, []limiter.Charge) ([]limiter.Decision, error) {
	return nil, errors.New("the store was called")
}

// warm decides charges, one in each millisecond, until one is admitted from a lease.
func (w *world) warm(t testing.TB, c limiter.Charge) {
	t.Helper()
	for range 100 {
		w.now = w.now.Add(time.Millisecond)
		if w.decide(t, c).Origin == limiter.OriginLease {
			return
		}
	}
	t.Fatal("no charge was admitted from a lease")
}

func (w *world) used(t testing.TB, c limiter.Charge) int64 {
	t.Helper()
	c.Cost = 0
	d, err := w.Store.Peek(t.Context(), []limiter.Charge{c})
	if err != nil {
		t.Fatal(err)
	}
	return c.Limit.Capacity() - d[0].Remaining
}

// units returns weir_lease_units_total by event, and weir_lease_counters.
func (w *world) units(t testing.TB) (events map[string]float64, counters float64) {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(w.Leases)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	events = map[string]float64{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			switch family.GetType() {
			case dto.MetricType_GAUGE:
				counters = m.GetGauge().GetValue()
			default:
				events[m.GetLabel()[0].GetValue()] = m.GetCounter().GetValue()
			}
		}
	}
	return events, counters
}

func TestTick_ReturnsUnusedUnitsAfterTheMaximumAge(t *testing.T) {
	w := newWorld()
	c := charge(t, limiter.SlidingWindowLog, 1000, time.Minute)
	w.warm(t, c)
	held := w.used(t, c)
	w.now = w.now.Add(990 * time.Millisecond)
	w.Tick(t.Context())
	if len(w.refunds) > 0 {
		t.Fatalf("returned %+v before the maximum age", w.refunds)
	}
	w.now = w.now.Add(11 * time.Millisecond)
	if w.isAdmitted(t, c) {
		t.Error("the lease admits after its maximum age")
	}
	w.Tick(t.Context())
	events, counters := w.units(t)
	if len(w.refunds) != 1 || w.used(t, c) != held-w.refunds[0].Cost || events["leased"] != events["admitted"]+events["returned"] || events["returned"] == 0 {
		t.Errorf("returned %+v; %d units are stored, before it %d; %v", w.refunds, w.used(t, c), held, events)
	}
	if counters != 1 {
		t.Errorf("%v counters, want 1", counters)
	}
	w.now = w.now.Add(2 * time.Second) // idle
	w.Tick(t.Context())
	if _, counters := w.units(t); counters != 0 || len(w.refunds) != 1 {
		t.Errorf("%v counters, %d returns after the end, want 0 and 1", counters, len(w.refunds))
	}
}

func TestTake_LeasesUnitsOfEveryAlgorithmButAQueue(t *testing.T) {
	for _, algorithm := range limiter.Algorithms() {
		w := newWorld()
		c, leased, admitted := charge(t, algorithm, 1000, time.Minute), 0, int64(0)
		if algorithm.Traits().Queues {
			c.Limit, _ = c.Limit.WithBurst(1000) // long enough for a lease
		}
		for range 100 {
			w.now = w.now.Add(time.Millisecond)
			if d := w.decide(t, c); d.Origin == limiter.OriginLease {
				leased++
			} else if !d.Allowed {
				continue
			}
			admitted++
		}
		if isLeased := leased > 0; isLeased == algorithm.Traits().Queues {
			t.Errorf("%s: %d of 100 charges were admitted from a lease", algorithm, leased)
		}
		if used := w.used(t, c); !algorithm.Traits().Drains && used < admitted {
			t.Errorf("%s: %d units count in the store, but %d were admitted", algorithm, used, admitted)
		}
	}
}

func TestTake_ALeaseDoesNotOutliveItsAlignedWindow(t *testing.T) {
	for _, algorithm := range []limiter.Algorithm{limiter.FixedWindow, limiter.SlidingWindowCounter} {
		w := newWorld()
		c := charge(t, algorithm, 1000, 2*time.Second)
		w.now = w.now.Add(900 * time.Millisecond) // a window ends in 100 ms
		w.warm(t, c)
		end := w.now.Truncate(2 * time.Second).Add(2 * time.Second)
		if w.now = end.Add(-time.Microsecond); w.decide(t, c).Origin != limiter.OriginLease {
			t.Errorf("%s: the lease ends before its window", algorithm)
		}
		if w.now = end; w.decide(t, c).Origin != limiter.OriginStore {
			t.Errorf("%s: the lease outlives its window", algorithm)
		}
	}
}

func TestSpend_LeasesAtMostTheShareOfTheReplica(t *testing.T) {
	for _, replicas := range []int64{1, 4} {
		w := newWorld()
		w.Share(replicas)
		c := charge(t, limiter.SlidingWindowLog, 1000, time.Minute)
		for range 900 {
			w.now = w.now.Add(time.Millisecond)
			w.decide(t, c)
			w.Tick(t.Context())
		}
		most := int64(0)
		for _, spent := range w.spends {
			most = max(most, spent.Cost-1)
		}
		if most > 100/replicas || most < 50/replicas {
			t.Errorf("%d replicas: leases of up to %d units, want nearly %d", replicas, most, 100/replicas)
		}
	}
}

// Units that went back to the store are no demand.
func TestSpend_ALeaseThatEndedUnusedIsNoDemand(t *testing.T) {
	w := newWorld()
	c := charge(t, limiter.SlidingWindowCounter, 100_000, time.Minute)
	request := func(pause time.Duration) {
		for range pause / (10 * time.Millisecond) {
			w.now = w.now.Add(10 * time.Millisecond)
			w.Tick(t.Context())
		}
		w.decide(t, c)
	}
	for range 50 {
		request(10 * time.Millisecond)
	}
	request(1060 * time.Millisecond) // the demand before it counts
	busy, _ := w.units(t)
	if busy["leased"] == 0 {
		t.Fatal("a busy counter was not leased")
	}
	for range 20 {
		request(1060 * time.Millisecond)
	}
	if slow, _ := w.units(t); slow["leased"] > busy["leased"] {
		t.Errorf("leased %v units for one request in each 1.06 s, want 0", slow["leased"]-busy["leased"])
	}
}

func TestSpend_LeasesShrinkNearTheLimit(t *testing.T) {
	w := newWorld()
	c := charge(t, limiter.SlidingWindowLog, 1000, time.Minute)
	admitted := 0
	for range 1200 {
		w.now = w.now.Add(time.Millisecond)
		if w.decide(t, c).Allowed {
			admitted++
		}
		used := w.used(t, c)
		if left := 1000 - used; used-int64(admitted) > (left+used-int64(admitted))/2+1 {
			t.Fatalf("%d units are leased and %d are left", used-int64(admitted), left)
		}
	}
	if admitted != 1000 {
		t.Errorf("%d units were admitted, want 1000: a single replica loses nothing", admitted)
	}
}

func TestSpend_DecidesAloneWhatTheLeaseDenied(t *testing.T) {
	w := newWorld()
	c := charge(t, limiter.SlidingWindowLog, 100, time.Minute)
	for range 4 {
		w.now = w.now.Add(time.Millisecond)
		w.decide(t, c)
	}
	// Another replica spends, so that the lease does not fit but the request does.
	other := c
	other.Cost = 95
	if _, err := w.Store.Spend(t.Context(), []limiter.Charge{other}); err != nil {
		t.Fatal(err)
	}
	if d := w.decide(t, c); !d.Allowed {
		t.Errorf("%+v; the request fits", d)
	}
	if w.used(t, c) != 100 {
		t.Errorf("%d units are stored, want 100", w.used(t, c))
	}
}

func TestSpend_CountsShadowChargesWhoseLeaseDoesNotFit(t *testing.T) {
	w := newWorld()
	enforced, shadow := charge(t, limiter.SlidingWindowLog, 1000, time.Minute), charge(t, limiter.SlidingWindowLog, 100, time.Minute)
	shadow.Key, shadow.Shadow = "shadow", true
	both := []limiter.Charge{enforced, shadow}
	for range 4 {
		w.now = w.now.Add(time.Millisecond)
		if _, err := w.below.Spend(t.Context(), both); err != nil {
			t.Fatal(err)
		}
	}
	other := shadow
	other.Cost, other.Shadow = 95, false
	if _, err := w.Store.Spend(t.Context(), []limiter.Charge{other}); err != nil {
		t.Fatal(err)
	}
	d, err := w.below.Spend(t.Context(), both)
	if err != nil || !d[0].Allowed || !d[1].Allowed || w.used(t, shadow) != 100 {
		t.Errorf("%+v, %v; %d units of the shadow charge are stored, want 100", d, err, w.used(t, shadow))
	}
}

func TestTick_ReturnsUnitsWhenTheStoreIsAvailableAgain(t *testing.T) {
	w := newWorld()
	c := charge(t, limiter.SlidingWindowLog, 1000, time.Minute)
	w.warm(t, c)
	w.unavailable = true
	if w.decide(t, c).Origin != limiter.OriginLease {
		t.Error("a lease ends with the store")
	}
	for range 5 {
		w.now = w.now.Add(time.Second)
		w.Tick(t.Context())
	}
	if len(w.refunds) > 0 {
		t.Fatalf("returned %+v to a store that is unavailable", w.refunds)
	}
	w.unavailable = false
	w.now = w.now.Add(time.Second)
	w.Tick(t.Context())
	if events, _ := w.units(t); len(w.refunds) != 1 || events["returned"] == 0 || events["leased"] != events["returned"]+events["admitted"] {
		t.Errorf("returned %+v, %v", w.refunds, events)
	}
}

func TestTick_DropsUnitsWhoseReturnFailed(t *testing.T) {
	w := newWorld()
	c := charge(t, limiter.SlidingWindowLog, 1000, time.Minute)
	w.warm(t, c)
	w.refundErr = errors.New("no reply")
	for range 5 {
		w.now = w.now.Add(time.Second)
		w.Tick(t.Context())
	}
	if events, _ := w.units(t); len(w.refunds) != 1 || events["expired"] == 0 || events["returned"] != 0 {
		t.Errorf("%d returns, %v; a return that may have been counted must not be repeated", len(w.refunds), events)
	}
}

func TestSpend_LeasesNothingFromAStoreThatIsUnavailable(t *testing.T) {
	w := newWorld()
	c := charge(t, limiter.SlidingWindowLog, 1000, time.Minute)
	w.unavailable, w.local = true, true
	for range 20 {
		w.now = w.now.Add(time.Millisecond)
		w.decide(t, c)
	}
	for _, spent := range w.spends {
		if spent.Cost != 1 {
			t.Errorf("spent %d units, want 1", spent.Cost)
		}
	}
}

// The store can become unavailable during the call that leases units: then this replica has counted them, and nothing is returned.
func TestTick_ReturnsNoUnitsThatWereCountedLocally(t *testing.T) {
	w := newWorld()
	c := charge(t, limiter.SlidingWindowLog, 1000, time.Minute)
	for range 4 {
		w.now = w.now.Add(time.Millisecond)
		w.decide(t, c)
	}
	w.local = true
	w.warm(t, c)
	w.now = w.now.Add(2 * time.Second)
	w.Tick(t.Context())
	if events, _ := w.units(t); len(w.refunds) != 0 || events["expired"] == 0 {
		t.Errorf("returned %+v, %v", w.refunds, events)
	}
	c.OnStoreFailure = limiter.AllowOnFailure
	w = newWorld()
	for range 4 {
		w.now = w.now.Add(time.Millisecond)
		w.decide(t, c)
	}
	w.local = true
	if w.decide(t, c); w.decide(t, c).Origin == limiter.OriginLease {
		t.Error("units that were not counted became a lease")
	}
}

func TestRun_ReturnsAllUnitsAtTheEnd(t *testing.T) {
	w := newWorld()
	c := charge(t, limiter.SlidingWindowLog, 1000, time.Minute)
	w.warm(t, c)
	admitted := w.used(t, c)
	ctx, stop := context.WithCancel(t.Context())
	stop()
	w.Run(ctx)
	if ok := w.isAdmitted(t, c); ok || len(w.refunds) != 1 || w.used(t, c) != admitted-w.refunds[0].Cost {
		t.Errorf("returned %+v; %d of %d units are stored; the lease admits: %v", w.refunds, w.used(t, c), admitted, ok)
	}
}

func TestSpend_KeepsNoMemoryForCountersThatAreChargedOnce(t *testing.T) {
	w := newWorld()
	for i := range 100_000 {
		w.now = w.now.Add(10 * time.Microsecond)
		c := charge(t, limiter.TokenBucket, 1000, time.Minute)
		c.Key = fmt.Sprint("once-", i)
		w.decide(t, c)
		if i%20 == 0 { // 5000 in a second
			c.Key = "busy"
			w.decide(t, c)
		}
	}
	if events, counters := w.units(t); counters > 100 || events["leased"] < 100 {
		t.Errorf("%v counters, %v; want the busy one", counters, events)
	}
}

func TestLeases_AdmitEachUnitOnceUnderConcurrency(t *testing.T) {
	limit := charge(t, limiter.FixedWindow, 20_000, time.Hour)
	counted := memstore.New(time.Now)
	leases := lease.New(reliable{counted}, time.Now)
	top := leases.Admit(leases.Borrow(counted))
	limit.Lease = &limiter.LeaseTerms{MaxPercent: 50, MaxAge: 100 * time.Millisecond}
	ctx, stop := context.WithCancel(t.Context())
	var running, clients sync.WaitGroup
	running.Go(func() { leases.Run(ctx) })
	var mu sync.Mutex
	admitted, fromLeases := int64(0), 0
	spend := func() (decided limiter.Decision, ok bool) {
		c := limit
		c.Cost = 1
		decisions, err := top.Spend(t.Context(), []limiter.Charge{c})
		if err != nil || decisions[0].Limit != 20_000 {
			t.Error(decisions, err)
			return limiter.Decision{}, false
		}
		mu.Lock()
		defer mu.Unlock()
		if decisions[0].Allowed {
			admitted++
		}
		if decisions[0].Origin == limiter.OriginLease {
			fromLeases++
		}
		return decisions[0], true
	}
	for range 1000 { // until there is a lease: otherwise fast clients spend the limit before
		if d, ok := spend(); !ok || d.Origin == limiter.OriginLease {
			break
		}
		time.Sleep(time.Millisecond)
	}
	for range 64 {
		clients.Go(func() {
			for range 400 {
				if _, ok := spend(); !ok {
					return
				}
			}
		})
	}
	clients.Wait()
	stop()
	running.Wait()
	used, err := counted.Peek(t.Context(), []limiter.Charge{{Key: "key", Limit: limit.Limit}})
	if err != nil || 20_000-used[0].Remaining != admitted || admitted > 20_000 || fromLeases < 1000 {
		t.Errorf("%d units were admitted, %d from leases; the store counts %d; %v", admitted, fromLeases, 20_000-used[0].Remaining, err)
	}
}

type reliable struct{ limiter.Store }

func (reliable) Unavailable(string) bool { return false }

func TestTaken_DescribesTheCounter(t *testing.T) {
	w := newWorld()
	c := charge(t, limiter.SlidingWindowLog, 1000, time.Minute)
	w.warm(t, c)
	c.Cost = math.MaxInt64
	if w.isAdmitted(t, c) {
		t.Error("admitted a cost above the limit")
	}
	c.Cost = 0
	if d := w.decide(t, c); !d.Allowed || d.Origin != limiter.OriginLease || d.RetryAfter != 0 || d.Delay != 0 {
		t.Errorf("%+v", d)
	}
}
