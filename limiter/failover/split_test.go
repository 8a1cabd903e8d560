package failover_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/failover"
	"github.com/weir-dev/weir/limiter/local"
)

// localUnits is the number of units that are spent locally on a counter with the limit of c.
func (w *world) localUnits(c limiter.Charge) int64 {
	return c.Limit.Units() - w.local.Peek([]limiter.Charge{{Key: c.Key, Limit: c.Limit}})[0].Remaining
}

// A request is charged all or nothing, also if one of its counters is available and the other is not.
func TestSpend_RefundsTheLocalUnitsOfARequestThatTheStoreDenies(t *testing.T) {
	w := newWorld()
	a, b, free := one(t, "a", 1), one(t, "b", 10), one(t, "c", 10)
	free.OnStoreFailure = limiter.AllowOnFailure
	w.spend(t, a)
	w.remote.set(keys("b", "c"), none)
	d := w.spend(t, free, b, a)
	if !d[0].Allowed || !d[1].Allowed || d[2].Allowed {
		t.Fatalf("decisions %+v, want the last charge denied", d)
	}
	if d[0].Origin != limiter.OriginLocal || d[1].Origin != limiter.OriginLocal || d[2].Origin != limiter.OriginStore {
		t.Errorf("origins %v, %v, %v, want two local decisions and one of the store", d[0].Origin, d[1].Origin, d[2].Origin)
	}
	if d[1].Remaining != 10 {
		t.Errorf("%d units remain for a request that is denied, want 10", d[1].Remaining)
	}
	if n := w.localUnits(b); n != 0 || w.local.HasUnreported() {
		t.Errorf("%d units are spent locally by a denied request, want 0", n)
	}
}

func TestPeek_OfARequestThatTheStoreDeniesInPartChangesNothing(t *testing.T) {
	w := newWorld()
	a, b := one(t, "a", 1), one(t, "b", 10)
	w.spend(t, a)
	w.remote.set(keys("b"), none)
	for range 2 { // b has units, which are not refunded
		w.spend(t, b)
	}
	d, err := w.Peek(t.Context(), []limiter.Charge{b, a})
	if err != nil || !d[0].Allowed || d[1].Allowed || d[0].Remaining != 8 {
		t.Errorf("decisions %+v, %v, want 8 units left and the second charge denied", d, err)
	}
	if n := w.localUnits(b); n != 2 {
		t.Errorf("%d units are spent locally after the peek, want 2", n)
	}
}

func TestSpend_DecidesLocallyIfTheAvailablePartFails(t *testing.T) {
	w := newWorld()
	a, b := one(t, "a", 10), one(t, "b", 10)
	w.remote.set(keys("b"), keys("a"))
	for i := range int64(3) {
		d := w.spend(t, b, a)
		if d[0].Origin != limiter.OriginLocal || d[1].Origin != limiter.OriginLocal || d[0].Remaining != 9-i || d[1].Remaining != 9-i {
			t.Errorf("request %d: %+v, want %d units left on both counters", i+1, d, 9-i)
		}
	}
}

// A charge that cannot be counted locally is decided as if nothing had been spent. If that denies the request, it spends
// nothing locally either.
// Other requests spend units that this replica does not know yet, so the store is called again while it answers.
func TestSpend_AsksAStoreAgainThatAnswersOthers(t *testing.T) {
	for name, test := range map[string]struct {
		lost        int // replies
		err         error
		unavailable func(string) bool
		want        limiter.Origin
		counted     int64
	}{
		"a lost reply":                   {1, fmt.Errorf("%w: timeout", limiter.ErrReplyLost), none, limiter.OriginStore, 1},
		"two lost replies":               {2, limiter.ErrReplyLost, none, limiter.OriginLocal, 0},
		"of a counter that is the cause": {1, limiter.ErrReplyLost, all, limiter.OriginLocal, 0},
		"a call that was not sent, of a counter that is available again": {1, fmt.Errorf("%w: no probe", limiter.ErrNotSent), none, limiter.OriginStore, 1},
		"of a counter that stays unavailable":                            {1, limiter.ErrNotSent, all, limiter.OriginLocal, 0},
		"not one that has counted debts": {1, &limiter.PartialError{
			Decisions: []limiter.Decision{{Origin: limiter.Undecided}}, Cause: limiter.ErrReplyLost,
		}, none, limiter.OriginLocal, 0},
		"another error": {1, errLost, none, limiter.OriginLocal, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			w.remote.fail = test.err
			lost := 0
			w.remote.set(none, func(string) bool {
				if lost++; lost == 1 {
					w.remote.unavailable = test.unavailable
				}
				return lost <= test.lost
			})
			charge := one(t, "a", 10)
			if got := w.spend(t, charge)[0].Origin; got != test.want || w.counted(t, charge) != test.counted {
				t.Errorf("origin %v and %d units counted, want %v and %d", got, w.counted(t, charge), test.want, test.counted)
			}
		})
	}
}

func TestSpend_LocallySpendsNothingForADeniedRequest(t *testing.T) {
	w := newWorld()
	w.remote.set(all, none)
	free, b := one(t, "a", 10), one(t, "b", 10)
	free.OnStoreFailure = limiter.AllowOnFailure
	tooMuch, shadow := free, free
	tooMuch.Cost = 11
	shadow.Cost, shadow.Shadow = 11, true
	for name, test := range map[string]struct {
		charges []limiter.Charge
		spent   int64
	}{
		"allowed":                      {[]limiter.Charge{free, b}, 1},
		"denied":                       {[]limiter.Charge{tooMuch, b}, 0},
		"denied, then an allowed one":  {[]limiter.Charge{tooMuch, free, b}, 0},
		"denied by a shadow charge":    {[]limiter.Charge{shadow, b}, 1},
		"allowed, with a shadow first": {[]limiter.Charge{shadow, free, b}, 1},
	} {
		before := w.localUnits(b)
		d := w.spend(t, test.charges...)
		for i := range d {
			if d[i].Origin != limiter.OriginLocal {
				t.Errorf("%s: origin %v of charge %d, want local", name, d[i].Origin, i)
			}
		}
		if spent := w.localUnits(b) - before; spent != test.spent {
			t.Errorf("%s: %d units spent, want %d", name, spent, test.spent)
		}
	}
	before := w.localUnits(b)
	if _, err := w.Peek(t.Context(), []limiter.Charge{free, b}); err != nil || w.localUnits(b) != before {
		t.Errorf("a peek spends %d units, %v", w.localUnits(b)-before, err)
	}
}

// recovering is a world with a share of 3 of 9 units, in the moment after an outage.
func recovering(t *testing.T, unavailableFor time.Duration) *world {
	t.Helper()
	w := newWorld()
	w.local.Share(local.Peers{Replicas: 3})
	if err := w.Recovering(t.Context(), unavailableFor); err != nil {
		t.Fatal(err)
	}
	return w
}

// Another replica may detect the end of an outage up to 500 ms later. Until then, a replica admits no more than its share. After a
// short outage, twice the outage is enough.
func TestRecovering_KeepsToTheShareForTwiceTheOutageAtMostHalfASecond(t *testing.T) {
	for outage, want := range map[time.Duration]time.Duration{
		0: 0, 100 * time.Millisecond: 200 * time.Millisecond, 250 * time.Millisecond: 500 * time.Millisecond, time.Hour: 500 * time.Millisecond,
	} {
		w := recovering(t, outage)
		admitted := func() (units int) {
			for range 20 {
				if w.spend(t, one(t, "a", 9))[0].Allowed {
					units++
				}
			}
			return units
		}
		if want > 0 {
			if got := admitted(); got != 3 {
				t.Errorf("after an outage of %v: %d units admitted, want the share of 3", outage, got)
			}
			w.pass(want - time.Nanosecond)
			if got := admitted(); got != 0 {
				t.Errorf("after an outage of %v: %d units admitted %v later, want 0", outage, got, want-time.Nanosecond)
			}
			w.pass(time.Nanosecond)
		}
		admitted()
		if n := w.counted(t, one(t, "a", 9)); n != 9 {
			t.Errorf("after an outage of %v: %d units counted %v later, want all 9", outage, n, want)
		}
	}
}

// What the store does not count is not spent on the share of the replica either.
func TestRecovering_RefundsTheShareOfARequestThatTheStoreDoesNotCount(t *testing.T) {
	w := recovering(t, time.Minute)
	a, b := one(t, "a", 9), one(t, "b", 1)
	b.OnStoreFailure = limiter.AllowOnFailure // has no share
	w.spend(t, b)
	for range 9 {
		if d := w.spend(t, a, b); d[1].Allowed {
			t.Fatalf("decisions %+v, want the second charge denied", d)
		}
	}
	share := func() int64 { return w.local.Peek([]limiter.Charge{a})[0].Remaining }
	if n := share(); n != 3 {
		t.Errorf("%d units of the share of 3 are left after denied requests", n)
	}
	for range 9 {
		if d, err := w.Peek(t.Context(), []limiter.Charge{a}); err != nil || !d[0].Allowed || d[0].Origin != limiter.OriginStore {
			t.Errorf("peek %+v, %v, want the decision of the store", d, err)
		}
	}
	if n := share(); n != 3 {
		t.Errorf("%d units of the share of 3 are left after peeks", n)
	}
	w.remote.set(none, all)
	for i := range 4 { // the share is spent once per request, not by the attempt before it
		d := w.spend(t, a)[0]
		if d.Origin != limiter.OriginLocal || d.Allowed != (i < 3) {
			t.Errorf("request %d while the store fails: %+v", i+1, d)
		}
	}
}

func TestRecovering_PeeksOtherChargesIfTheShareIsSpent(t *testing.T) {
	w := recovering(t, time.Minute)
	a, b := one(t, "a", 9), one(t, "b", 9)
	b.OnStoreFailure = limiter.AllowOnFailure
	for range 3 {
		w.spend(t, b, a)
	}
	d := w.spend(t, b, a)
	if d[0].Origin != limiter.OriginStore || !d[0].Allowed || d[1].Origin != limiter.OriginLocal || d[1].Allowed {
		t.Errorf("decisions %+v, want the first of the store and the second denied locally", d)
	}
	if n := w.counted(t, b); n != 3 {
		t.Errorf("%d units of the other counter are counted, want 3", n)
	}
}

// Units that a first round could not report are reported as soon as their part is available: by the rounds that follow, or by the
// next request that needs the counter.
func TestRecovering_ReportsTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		a, b := one(t, "a", 10), one(t, "b", 10)
		w.remote.set(all, none)
		w.spend(t, a, b)
		w.remote.set(keys("a"), none)
		if err := w.Recovering(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := w.value(t, "weir_local_repaid_units_total", "uncounted"); got != 0 {
			t.Errorf("%v units are uncounted without an error, want 0", got)
		}
		w.remote.set(none, none)
		w.spend(t, a)
		if n := w.counted(t, a); n != 2 {
			t.Errorf("%d units are counted, want the local one and the new one", n)
		}
	})
}

// An outage can leave more counters than one round reports. The store receives a bounded number of reports at a time.
func TestRecovering_ReportsEveryCounterWithoutOverloadingTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const counters = 20_500 // 20 000 of them in the first round
		w := newWorld()
		w.local = local.New(1<<30, w.clock)
		w.Store = failover.New(w.remote, w.local, w.clock, slog.New(slog.DiscardHandler))
		w.remote.set(all, none)
		for i := range counters {
			w.spend(t, one(t, strconv.Itoa(i), 9))
		}
		w.remote.set(none, none)
		w.remote.reportTakes = time.Millisecond
		if err := w.Recovering(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // without time passing: the first 128 reports of the rest are in progress
		if n := w.local.Stats().Unreported; n != counters-20_000-128 {
			t.Errorf("%d counters are unreported after the first round, want 500 without the 128 in progress", n)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if n := w.local.Stats().Unreported; n != 0 {
			t.Errorf("%d counters are unreported at the end, want 0", n)
		}
		if w.remote.mostReports != 128 {
			t.Errorf("%d reports at the same time, want 128", w.remote.mostReports)
		}
	})
}

// A process that cannot keep up cannot report in time either. That does not prolong the outage, and the units are reported afterwards.
func TestRecovering_EndsWhileThisProcessIsOverloaded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.remote.set(all, none)
		for i := range 200 {
			w.spend(t, one(t, strconv.Itoa(i), 9))
		}
		w.remote.set(none, none)
		w.remote.failReportsWith(fmt.Errorf("report: %w", limiter.ErrOverloaded))
		if err := w.Recovering(t.Context(), 0); err != nil {
			t.Fatalf("the recovery of an overloaded process failed: %v", err)
		}
		if n := w.local.Stats().Unreported; n != 200 {
			t.Errorf("%d counters are unreported, want 200", n)
		}
		time.Sleep(time.Second)
		w.remote.failReportsWith(nil)
		time.Sleep(time.Second)
		synctest.Wait()
		if n := w.local.Stats().Unreported; n != 0 {
			t.Errorf("%d counters are unreported after the overload, want 0", n)
		}
	})
}

func TestRecovering_KeepsUnitsThatAFailingStoreDidNotCount(t *testing.T) {
	w := newWorld()
	a := one(t, "a", 10)
	w.remote.set(all, none)
	w.spend(t, a)
	w.remote.set(none, none)
	w.remote.failReports = errLost
	if err := w.Recovering(t.Context(), 0); !errors.Is(err, errLost) || !w.local.HasUnreported() {
		t.Errorf("error %v, want %v and the unit unreported", err, errLost)
	}
	for result, want := range map[string]float64{"counted": 0, "unknown": 0, "uncounted": 1} {
		if got := w.value(t, "weir_local_repaid_units_total", result); got != want {
			t.Errorf("%s: %v units, want %v", result, got, want)
		}
	}
}

func TestRefund_GoesOnAfterAnUnavailableCounter(t *testing.T) {
	w := newWorld()
	a, b := one(t, "a", 10), one(t, "b", 10)
	w.remote.set(keys("b"), none)
	d := w.spend(t, a, b)
	refunds := []limiter.Refund{{Key: "b", Limit: b.Limit, Cost: 1, At: d[1].At}, {Key: "a", Limit: a.Limit, Cost: 1, At: d[0].At}}
	if err := w.Refund(t.Context(), refunds); err != nil {
		t.Fatal(err)
	}
	if w.counted(t, a) != 0 || w.localUnits(b) != 0 {
		t.Errorf("%d units are counted in the store and %d locally after the refund, want 0", w.counted(t, a), w.localUnits(b))
	}
}

// refundLatest refunds the units of a charge that were spent last.
func (w *world) refundLatest(t *testing.T, c limiter.Charge) {
	t.Helper()
	if err := w.Refund(t.Context(), []limiter.Refund{{Key: c.Key, Limit: c.Limit, Cost: c.Cost, Latest: true}}); err != nil {
		t.Fatal(err)
	}
}

func TestRefund_OfTheLatestUnitsIsLocalOnAnUnavailableCounterOnly(t *testing.T) {
	w := newWorld()
	a := one(t, "a", 1)
	w.remote.set(all, none)
	w.spend(t, a)
	if w.refundLatest(t, a); w.localUnits(a) != 0 {
		t.Errorf("%d units are left after the refund, want 0", w.localUnits(a))
	}
	w.spend(t, a)
	w.remote.set(none, none)
	if w.refundLatest(t, a); w.localUnits(a) != 1 {
		t.Errorf("%d local units of an available counter, want 1: the store refunds", w.localUnits(a))
	}
}

// All units were spent before the outage and are refunded in it.
func TestRefund_RefundsAllUnitsThatTheStoreCounted(t *testing.T) {
	w := newWorld()
	a := debt(t, 5, 5)
	a.Debt = false
	w.spend(t, a)
	w.remote.set(all, none)
	w.refundLatest(t, a)
	if d := w.spend(t, a); !d[0].Allowed {
		t.Errorf("all units were refunded, and the next request is denied: %+v", d)
	}
}

// The caller of a refund does not know when the units were spent.
func TestRefund_RefundsUnitsOfALogThatWereSpentEarlier(t *testing.T) {
	w := newWorld()
	limit, err := limiter.NewLimit(limiter.SlidingWindowLog, 10, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	charge := limiter.Charge{Key: "log", Limit: limit, Cost: 3}
	w.remote.set(all, none)
	w.spend(t, charge)
	w.pass(10 * time.Second)
	if w.refundLatest(t, charge); w.localUnits(charge) != 0 {
		t.Errorf("%d units are left after the refund, want 0", w.localUnits(charge))
	}
}

func TestObserveCalls_ReceivesEachCallOfTheStore(t *testing.T) {
	w := newWorld()
	var ops []string
	w.ObserveCalls(func(op string, took time.Duration, err error) {
		if took != 0 {
			t.Errorf("%s took %v on a clock that stands still", op, took)
		}
		if err != nil {
			op += ": " + err.Error()
		}
		ops = append(ops, op)
	})
	charges := []limiter.Charge{one(t, "a", 2)}
	w.spend(t, charges...)
	if _, err := w.Peek(t.Context(), charges); err != nil {
		t.Fatal(err)
	}
	w.remote.set(none, all)
	w.spend(t, charges...)
	w.remote.set(all, none)
	w.spend(t, charges...)
	if want := []string{"spend", "peek", "spend: " + errLost.Error()}; !slices.Equal(ops, want) {
		t.Errorf("calls %q, want %q", ops, want)
	}
}

func TestCollect_DescribesTheCountersInMemory(t *testing.T) {
	w := newWorld()
	w.remote.set(all, none)
	w.spend(t, one(t, "a", 9), one(t, "b", 9))
	for i := range 4000 { // more than fit into 1 MiB
		w.spend(t, one(t, string(rune('가'+i)), 9))
	}
	stats := w.local.Stats()
	w.spend(t, one(t, "a", 9)) // evicted, so it begins with an estimate
	if stats.Evicted == 0 || stats.Lost == 0 {
		t.Fatalf("local counters %+v, want evicted ones", stats)
	}
	stats = w.local.Stats()
	for name, want := range map[string]float64{
		"weir_local_replicas": 1, "weir_local_counters": float64(stats.Held), "weir_local_bytes": float64(stats.Bytes), "weir_local_owing": float64(stats.Unreported),
		"weir_local_evicted_total": float64(stats.Evicted), "weir_local_floored_total": float64(stats.Estimated),
		"weir_local_lost_units_total": float64(stats.Lost),
	} {
		if got := w.value(t, name, ""); got != want || want == 0 {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
}

func TestUnavailable_MeasuresAnOutageFromItsFirstPartToItsLast(t *testing.T) {
	w := newWorld()
	seconds := func(want float64) {
		t.Helper()
		if got := w.value(t, "weir_local_mode_seconds_total", ""); got != want {
			t.Errorf("weir_local_mode_seconds_total is %v, want %v", got, want)
		}
	}
	for outage := range 2 {
		before := float64(outage) * 3
		w.Unavailable("redis-0", errLost)
		w.pass(time.Second)
		seconds(before + 1)
		w.Unavailable("redis-1", errLost)
		w.pass(time.Second)
		w.Recovered("redis-0")
		w.pass(time.Second)
		seconds(before + 3)
		w.Recovered("redis-1")
		w.pass(time.Minute)
		seconds(before + 3)
	}
}

// An error with a known kind begins an outage, which is logged once.
func TestSpend_DoesNotLogErrorsThatAnOutageExplains(t *testing.T) {
	w := newWorld()
	w.remote.set(none, all)
	w.remote.fail = errors.Join(context.DeadlineExceeded)
	w.spend(t, one(t, "a", 2))
	if w.log.Len() > 0 {
		t.Errorf("log %q, want nothing", &w.log)
	}
}

// After an outage, the store alone decides: the share of a counter that was spent on locally no longer matters.
func TestRecovered_EndsLocalModeForCountersThatWereSpentOnLocally(t *testing.T) {
	w := newWorld()
	w.local.Share(local.Peers{Replicas: 3})
	w.remote.set(all, none)
	w.Unavailable("redis-0", errLost)
	w.Unavailable("redis-1", errLost)
	a := one(t, "a", 9)
	w.spend(t, a)
	w.remote.set(none, none)
	spend := func() (origin limiter.Origin) {
		for range 4 {
			origin = w.spend(t, a)[0].Origin
		}
		return origin
	}
	w.Recovered("redis-0")
	if origin := spend(); origin != limiter.OriginLocal {
		t.Errorf("origin %v while a part is unavailable, want local: the share of 3 is spent", origin)
	}
	w.Recovered("redis-1")
	if origin := spend(); origin != limiter.OriginStore {
		t.Errorf("origin %v after all parts have recovered, want the store", origin)
	}
}
