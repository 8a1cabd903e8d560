package failover_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/failover"
	"github.com/weir-dev/weir/limiter/local"
	"github.com/weir-dev/weir/limiter/memstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errLost = errors.New("the reply was lost")

// remote is a store in memory of which some counters are unavailable.
type remote struct {
	*memstore.Store

	mu          sync.Mutex
	unavailable func(key string) bool // as Unavailable reports it
	fails       func(key string) bool // found out only by a call
	fail        error                 // of such a call; errLost if nil
	loseReports bool                  // the replies to ReportUsage are lost
	failReports error                 // ReportUsage counts nothing
	reports     int                   // calls of ReportUsage that run now
	mostReports int                   // that ran at the same time
	reportTakes time.Duration
	resets      sync.Map // of IDs
}

func (r *remote) Unavailable(key string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.unavailable(key)
}

func (r *remote) set(unavailable, fails func(string) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unavailable, r.fails = unavailable, fails
}

func (r *remote) call(charges []limiter.Charge) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range charges {
		if r.unavailable(c.Key) {
			panic("called for the unavailable counter " + c.Key)
		}
		if r.fails(c.Key) {
			return cmp.Or(r.fail, errLost)
		}
	}
	return nil
}

func (r *remote) Spend(ctx context.Context, charges []limiter.Charge) ([]limiter.Decision, error) {
	if err := r.call(charges); err != nil {
		return nil, err
	}
	return r.Store.Spend(ctx, charges)
}

func (r *remote) Peek(ctx context.Context, charges []limiter.Charge) ([]limiter.Decision, error) {
	if err := r.call(charges); err != nil {
		return nil, err
	}
	return r.Store.Peek(ctx, charges)
}

func (r *remote) ReportUsage(ctx context.Context, charge limiter.Charge) (uncounted bool, err error) {
	if r.Unavailable(charge.Key) {
		return true, nil
	}
	if err := r.reportError(); err != nil {
		return true, err
	}
	r.addReports(1)
	defer r.addReports(-1)
	time.Sleep(r.reportTakes)
	decisions, err := r.Store.Spend(ctx, []limiter.Charge{charge})
	if err == nil && !decisions[0].Allowed {
		charge.Cost = decisions[0].Remaining
		_, err = r.Store.Spend(ctx, []limiter.Charge{charge})
	}
	if r.loseReports {
		return false, errLost
	}
	return false, err
}

func (r *remote) reportError() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failReports
}

func (r *remote) failReportsWith(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failReports = err
}

func (r *remote) addReports(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reports += n
	r.mostReports = max(r.mostReports, r.reports)
}

func all(string) bool  { return true }
func none(string) bool { return false }

func keys(list ...string) func(string) bool {
	return func(key string) bool { return slices.Contains(list, key) }
}

// world is a Store on a clock that moves only by pass.
type world struct {
	*failover.Store

	mu       sync.Mutex
	now      time.Time
	remote   *remote
	local    *local.Counters
	registry *prometheus.Registry
	log      bytes.Buffer
}

func newWorld() *world {
	w := &world{now: time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC), registry: prometheus.NewPedanticRegistry()}
	w.remote = &remote{Store: memstore.New(w.clock), unavailable: none, fails: none}
	w.local = local.New(1<<20, w.clock)
	w.Store = failover.New(w.remote, w.local, w.clock, slog.New(slog.NewTextHandler(&w.log, nil)))
	w.registry.MustRegister(w.Store)
	return w
}

func (w *world) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

func (w *world) pass(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

func perMinute(t *testing.T, units int64) limiter.Limit {
	t.Helper()
	limit, err := limiter.NewLimit(limiter.SlidingWindowLog, units, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	return limit
}

// one is a charge of one unit on a counter with a limit per minute.
func one(t *testing.T, key string, units int64) limiter.Charge {
	t.Helper()
	return limiter.Charge{Key: key, Limit: perMinute(t, units), Cost: 1}
}

func (w *world) spend(t *testing.T, charges ...limiter.Charge) []limiter.Decision {
	t.Helper()
	decisions, err := w.Spend(t.Context(), charges)
	if err != nil {
		t.Fatal(err)
	}
	return decisions
}

// counted is the number of units that the remote store has counted on a counter with the limit of c.
func (w *world) counted(t *testing.T, c limiter.Charge) int64 {
	t.Helper()
	decisions, err := w.remote.Store.Peek(t.Context(), []limiter.Charge{{Key: c.Key, Limit: c.Limit}})
	if err != nil {
		t.Fatal(err)
	}
	return c.Limit.Units() - decisions[0].Remaining
}

// value is the value of a metric, of the series with the given result unless that is empty; 0 if there is no such series.
func (w *world) value(t *testing.T, name, result string) float64 {
	t.Helper()
	families, err := w.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.GetMetric() {
			if result == "" || m.GetLabel()[0].GetValue() == result {
				return m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
		}
	}
	return 0
}

func TestSpend_ReportsWhereEachDecisionWasMade(t *testing.T) {
	w := newWorld()
	a, b := one(t, "a", 1), one(t, "b", 10)
	origins := func(decisions []limiter.Decision) (list []limiter.Origin) {
		for _, d := range decisions {
			list = append(list, d.Origin)
		}
		return list
	}
	for i, step := range []struct {
		unavailable func(string) bool
		want        []limiter.Origin
	}{
		{none, []limiter.Origin{limiter.OriginStore, limiter.OriginStore}},
		{keys("b"), []limiter.Origin{limiter.OriginStore, limiter.OriginLocal}},
		{keys("a"), []limiter.Origin{limiter.OriginLocal, limiter.OriginStore}},
		{all, []limiter.Origin{limiter.OriginLocal, limiter.OriginLocal}},
	} {
		w.remote.set(step.unavailable, none)
		if got := origins(w.spend(t, a, b)); !slices.Equal(got, step.want) {
			t.Errorf("step %d: origins %v, want %v", i+1, got, step.want)
		}
	}
}

func TestSpend_RefusesAChargeThatDeniesOnFailure(t *testing.T) {
	w := newWorld()
	a, b := one(t, "a", 10), one(t, "b", 10)
	b.OnStoreFailure = limiter.DenyOnFailure
	for name, test := range map[string]struct {
		unavailable, fails func(string) bool
		message            string
	}{
		"unavailable":           {all, none, "charge 1 is refused while the store is unavailable"},
		"in part":               {keys("b"), none, "charge 1 is refused while the store is unavailable"},
		"found out by the call": {none, all, "charge 1 is refused while the store is unavailable: spend on 2 counters: the reply was lost"},
	} {
		w.remote.set(test.unavailable, test.fails)
		_, err := w.Spend(t.Context(), []limiter.Charge{a, b})
		refused, is := errors.AsType[*limiter.RefusedError](err)
		if !is || refused.Charge != 1 || err.Error() != test.message {
			t.Errorf("%s: error %v, want %s", name, err, test.message)
		}
	}
	b.Shadow = true
	w.remote.set(all, none)
	if d := w.spend(t, a, b); !d[0].Allowed || !d[1].Allowed {
		t.Errorf("a shadow charge: %+v, want both allowed", d)
	}
}

func TestRefund_RefundsUnitsWhereTheyAreCounted(t *testing.T) {
	w := newWorld()
	a, b := one(t, "a", 10), one(t, "b", 10)
	w.remote.set(keys("b"), none)
	d := w.spend(t, a, b)
	refunds := []limiter.Refund{{Key: "a", Limit: a.Limit, Cost: 1, At: d[0].At}, {Key: "b", Limit: b.Limit, Cost: 1, At: d[1].At}}
	if err := w.Refund(t.Context(), refunds); err != nil {
		t.Fatal(err)
	}
	if n := w.counted(t, a); n != 0 {
		t.Errorf("%d units are counted in the store after the refund, want 0", n)
	}
	if w.local.HasUnreported() {
		t.Error("units are counted locally after the refund")
	}
}

// rate() sees no increase of a series that begins with the first report.
func TestStore_HasSeriesOfReportedUnitsBeforeTheFirstReport(t *testing.T) {
	families, err := newWorld().registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var results []string
	for _, family := range families {
		if family.GetName() == "weir_local_repaid_units_total" {
			for _, m := range family.GetMetric() {
				results = append(results, m.GetLabel()[0].GetValue())
			}
		}
	}
	if want := []string{"counted", "uncounted", "unknown"}; !slices.Equal(results, want) {
		t.Errorf("weir_local_repaid_units_total has series of %q, want %q", results, want)
	}
}

// Units that the store has not counted stay unreported. Units that it may have counted are not reported again.
func TestRecovering_ReportsUnitsAtMostOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		a, b := one(t, "a", 10), one(t, "b", 10)
		w.remote.set(all, none)
		for range 3 {
			w.spend(t, a, b)
		}
		w.spend(t, b)
		w.remote.set(keys("a"), none) // the part with b recovers
		if err := w.Recovering(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // for the goroutine that Recovering starts for the rest
		if w.counted(t, a) != 0 || w.counted(t, b) != 4 || w.local.Stats().Unreported != 1 {
			t.Errorf("the store has counted %d and %d units, local counters %+v", w.counted(t, a), w.counted(t, b), w.local.Stats())
		}
		w.remote.set(none, none)
		w.remote.loseReports = true
		if err := w.Recovering(t.Context(), 0); !errors.Is(err, errLost) {
			t.Errorf("error %v when the reply is lost, want %v", err, errLost)
		}
		w.remote.loseReports = false
		if err := w.Recovering(t.Context(), 0); err != nil || w.counted(t, a) != 3 {
			t.Errorf("the store has counted %d units of 3 after a second report, %v", w.counted(t, a), err)
		}
		for result, want := range map[string]float64{"counted": 4, "unknown": 3, "uncounted": 0} {
			if got := w.value(t, "weir_local_repaid_units_total", result); got != want {
				t.Errorf("%s: %v units, want %v", result, got, want)
			}
		}
	})
}

func TestSpend_LogsUnexpectedErrorsOncePerInterval(t *testing.T) {
	w := newWorld()
	w.remote.set(none, all)
	for range 3 {
		if d := w.spend(t, one(t, "a", 2)); d[0].Origin != limiter.OriginLocal {
			t.Fatalf("%+v", d)
		}
	}
	const message = `msg="request decided locally because of an unexpected error of Redis"`
	if log := w.log.String(); strings.Count(log, "\n") != 1 || !strings.Contains(log, message) || !strings.Contains(log, errLost.Error()) {
		t.Errorf("want one line about three local decisions, got\n%s", log)
	}
}

func TestUnavailable_LogsAndCountsOutages(t *testing.T) {
	w := newWorld()
	refused := one(t, "b", 2)
	refused.OnStoreFailure = limiter.DenyOnFailure
	for range 2 { // two outages
		w.remote.set(all, none)
		w.Unavailable("redis-0", errLost)
		w.Unavailable("redis-1", errLost)
		w.Unavailable("redis-1", errLost)
		for range 3 {
			w.spend(t, one(t, "a", 2))
		}
		if _, err := w.Spend(t.Context(), []limiter.Charge{refused}); err == nil {
			t.Error("a charge that denies on failure is not refused")
		}
		w.pass(time.Minute)
		if since, active := w.LocalMode(); !active || !since.Equal(w.clock().Add(-time.Minute)) {
			t.Errorf("local mode %v since %v, want since a minute ago", active, since)
		}
		w.Recovered("redis-0")
		if got := w.value(t, "weir_local_mode", ""); got != 1 {
			t.Errorf("weir_local_mode is %v while a part is unavailable, want 1", got)
		}
		w.remote.set(none, none)
		w.Recovered("redis-1")
		w.Recovered("redis-1")
	}
	if _, active := w.LocalMode(); active {
		t.Error("local mode is active after all parts have recovered")
	}
	for name, want := range map[string]float64{
		"weir_local_mode": 0, "weir_local_mode_activations_total": 2, "weir_local_mode_seconds_total": 120,
	} {
		if got := w.value(t, name, ""); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	if n := strings.Count(w.log.String(), `msg="Redis unavailable; every policy applies its onStoreFailure" address=redis-`); n != 4 {
		t.Errorf("%d lines about an unavailable Redis, want 4:\n%s", n, &w.log)
	}
	if n := strings.Count(w.log.String(), `msg="Redis available again" address=redis-1 after=1m0s allowed=2 denied=1 refused=1`); n != 2 {
		t.Errorf("%d summaries of an outage, want 2:\n%s", n, &w.log)
	}
}

func TestUnavailable_LogsEachCauseOnce(t *testing.T) {
	refused := errors.New("dial tcp 10.0.0.7:6379: connect: connection refused")
	for name, test := range map[string]struct {
		cause error
		want  string
	}{
		"one cause":         {refused, refused.Error()},
		"the same cause":    {errors.Join(fmt.Errorf("run the spend script: %w", refused), refused), "run the spend script: " + refused.Error()},
		"two causes":        {errors.Join(errLost, refused), errLost.Error() + "; " + refused.Error()},
		"a repeated triple": {errors.Join(errLost, refused, errLost), errLost.Error() + "; " + refused.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			w.Unavailable("redis-0", test.cause)
			if want := `address=redis-0 error="` + test.want + "\" kind=other\n"; !strings.HasSuffix(w.log.String(), want) {
				t.Errorf("log %q\nwant …%q", &w.log, want)
			}
		})
	}
}

// The test is for the race detector.
func TestSpend_DuringManyRecoveries(t *testing.T) {
	w := newWorld()
	var group sync.WaitGroup
	stop := make(chan struct{})
	for i := range 4 {
		charges := []limiter.Charge{one(t, fmt.Sprint("a-", i%2), 1_000_000), one(t, fmt.Sprint("b-", i%2), 1_000_000)}
		group.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if _, err := w.Spend(t.Context(), charges); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for i := range 200 {
		w.remote.set(none, []func(string) bool{all, none, keys("a-0", "a-1")}[i%3])
		if err := w.Recovering(t.Context(), time.Millisecond); err != nil {
			t.Error(err)
		}
		_, _ = w.registry.Gather()
	}
	close(stop)
	group.Wait()
	w.remote.set(none, none)
	for range 3 {
		if err := w.Recovering(t.Context(), 0); err != nil {
			t.Error(err)
		}
	}
	if n := w.local.Stats().Unreported; n != 0 {
		t.Errorf("%d counters have unreported units after the last recovery, want 0", n)
	}
}

// The share of the recovery window is spent on the local counter as well.
func TestRefund_GivesTheShareBackWhileRecovering(t *testing.T) {
	w := newWorld()
	w.local.Share(local.Peers{Replicas: 3})
	if err := w.Recovering(t.Context(), time.Hour); err != nil {
		t.Fatal(err)
	}
	charge := one(t, "a", 3)
	at := w.spend(t, charge)[0].At
	if w.spend(t, charge)[0].Allowed {
		t.Error("2 units admitted of a share of 1")
	}
	if err := w.Refund(t.Context(), []limiter.Refund{{Key: "a", Limit: charge.Limit, Cost: 1, At: at}}); err != nil {
		t.Fatal(err)
	}
	if !w.spend(t, charge)[0].Allowed || w.counted(t, charge) != 1 {
		t.Errorf("not admitted after the refund, or %d units are counted, want 1", w.counted(t, charge))
	}
}

// The counter becomes available in a part of the store that never failed, while the part that held it is still unavailable. Other
// replicas may not have detected that, and still admit their shares.
func TestSpend_KeepsToTheShareForAMomentAfterAnotherPartTakesOver(t *testing.T) {
	w := newWorld()
	w.local.Share(local.Peers{Replicas: 3})
	w.remote.set(all, all)
	w.Unavailable("node-1", errLost)
	admitted := func() (units int) {
		for range 20 {
			if w.spend(t, one(t, "a", 9))[0].Allowed {
				units++
			}
		}
		return units
	}
	if got := admitted(); got != 3 {
		t.Errorf("%d units admitted while the counter is unavailable, want the share of 3", got)
	}
	w.pass(2 * time.Second) // without a unit that is left
	w.remote.set(none, none)
	for _, passed := range []time.Duration{0, 500*time.Millisecond - time.Microsecond} {
		w.pass(passed)
		if got := admitted(); got != 0 {
			t.Errorf("%d units admitted %v after the return, want 0 because the share is spent", got, passed)
		}
	}
	w.pass(time.Microsecond)
	if got := admitted(); got != 6 {
		t.Errorf("%d units admitted after half a second, want the 6 that are left in the store", got)
	}
}
