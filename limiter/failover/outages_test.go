package failover_test

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/failover"
)

// kinded is an error of a kind.
type kinded string

func (k kinded) Error() string { return "error of the kind " + string(k) }
func (k kinded) Kind() string  { return string(k) }

func (w *world) lines(part string) int { return strings.Count(w.log.String(), part) }

// Redis comes back, but with a password: the reason that was logged first is no longer the reason.
func TestProbeFailed_LogsAnotherCauseWhenItLasts(t *testing.T) {
	w := newWorld()
	w.Unavailable("redis-0", errors.Join(errLost, kinded("unreachable")))
	probe := func(kind string, times int) {
		for range times {
			w.pass(100 * time.Millisecond)
			w.ProbeFailed("redis-0", kinded(kind))
		}
	}
	probe("unreachable", 20)
	probe("timeout", 5) // for a moment
	probe("unreachable", 20)
	const another = `msg="Redis still unavailable, now for another reason" address=redis-0`
	if n := w.lines(another); n != 0 {
		t.Errorf("%d lines about another reason, want 0:\n%s", n, &w.log)
	}
	probe("denied", 30)
	if n := w.lines(another + ` error="error of the kind denied" kind=denied`); n != 1 || w.lines(another) != 1 {
		t.Errorf("%d lines about another reason, want 1:\n%s", n, &w.log)
	}
	for kind, want := range map[string]float64{"unreachable": 40, "timeout": 5, "denied": 30, "disconnected": 0} {
		if got := w.value(t, "weir_redis_probe_errors_total", kind); got != want {
			t.Errorf("%v errors of probes of the kind %s, want %v", got, kind, want)
		}
	}
	w.Recovered("redis-0")
	w.ProbeFailed("redis-0", kinded("denied")) // of an outage that is not reported
	if n := w.lines(another); n != 1 {
		t.Errorf("%d lines after the recovery, want 1", n)
	}
}

// A part of the counters is unavailable: that is local mode, and the log names it.
func TestPartUnavailable_IsLocalMode(t *testing.T) {
	w := newWorld()
	w.PartUnavailable("redis-0", "Compact counters of FixedWindow", kinded("denied"))
	w.PartUnavailable("redis-0", "Compact counters of SlidingWindowCounter", kinded("denied"))
	w.PartUnavailable("redis-0", "Compact counters of FixedWindow", kinded("denied"))
	if _, active := w.LocalMode(); !active || w.value(t, "weir_local_mode", "") != 1 {
		t.Error("no local mode while a part is unavailable")
	}
	const begins = `msg="Redis rejects some calls, and answers others; the policies with these counters apply their onStoreFailure" address=redis-0 counters="Compact counters of `
	if w.lines(begins) != 2 || w.lines(begins+`FixedWindow" error="error of the kind denied" kind=denied`) != 1 {
		t.Errorf("want a line for each part, got\n%s", &w.log)
	}
	w.PartRecovered("redis-0", "Compact counters of FixedWindow")
	if _, active := w.LocalMode(); !active {
		t.Error("no local mode while the other part is unavailable")
	}
	w.PartRecovered("redis-0", "Compact counters of SlidingWindowCounter")
	if _, active := w.LocalMode(); active || w.lines(`msg="Redis available again" address=redis-0 counters="Compact counters of SlidingWindowCounter"`) != 1 {
		t.Errorf("local mode is active: %t, log\n%s", active, &w.log)
	}
}

// An address that becomes unavailable and available several times a second does not fill the log.
func TestUnavailable_BoundsTheLinesAboutAnAddress(t *testing.T) {
	w := newWorld()
	for range 200 { // 40 s
		w.Unavailable("redis-0", errLost)
		w.pass(100 * time.Millisecond)
		w.Recovered("redis-0")
		w.pass(100 * time.Millisecond)
	}
	if n := w.lines("address=redis-0"); n < 4 || n > 10 {
		t.Errorf("%d lines in 40 s, want 6 and then one in 10 s:\n%s", n, &w.log)
	}
	w.Unavailable("redis-1", errLost)
	if n := w.lines("address=redis-1"); n != 1 {
		t.Errorf("%d lines about another address, want 1", n)
	}
	if got := w.value(t, "weir_local_mode_activations_total", ""); got != 201 {
		t.Errorf("%v activations, want 201: they are counted in any case", got)
	}
}

func TestCounterUnavailable_LogsOncePerInterval(t *testing.T) {
	w := newWorld()
	for i := range 3 {
		w.CounterUnavailable(fmt.Sprint("counter-", i), kinded("denied"))
	}
	if w.lines("\n") != 1 || w.lines(`key=counter-0 kind=denied error="error of the kind denied"`) != 1 {
		t.Errorf("want one line, got\n%s", &w.log)
	}
}

func TestSplitsBySlot_Logs(t *testing.T) {
	w := newWorld()
	w.SplitsBySlot("redis-0")
	if w.lines("calls are split by slot from now on\" address=redis-0") != 1 {
		t.Errorf("log %s", &w.log)
	}
}

// A local decision has a line in the log, whatever its error: that of the outage, or its own.
func TestSpend_LogsALocalDecisionThatNoOutageExplains(t *testing.T) {
	for name, test := range map[string]struct {
		fail   error
		outage bool // which the remote store reports within a second
		want   int  // lines about the decision
	}{
		"a lost reply":                    {fail: kinded("timeout"), want: 1},
		"the beginning of an outage":      {fail: kinded("timeout"), outage: true},
		"after an earlier error":          {fail: limiter.ErrNotSent},
		"a broken connection":             {fail: kinded("disconnected"), want: 1},
		"a missing permission for a key":  {fail: kinded("denied"), want: 1},
		"without connection, in time":     {fail: kinded("unreachable"), want: 1},
		"an error that the outage causes": {fail: kinded("readonly"), outage: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				w.remote.set(none, all)
				w.remote.fail = test.fail
				for range 5 {
					w.spend(t, one(t, "a", 9))
				}
				if test.outage {
					time.Sleep(time.Second)
					w.Unavailable("redis-0", test.fail)
				}
				time.Sleep(10 * time.Second)
				synctest.Wait()
				if n := w.lines(`msg="request decided locally because a call to Redis failed; Redis answers other calls"`); n != test.want {
					t.Errorf("%d lines, want %d:\n%s", n, test.want, &w.log)
				}
			})
		})
	}
}

// selective is a remote store without some counters of an algorithm.
type selective struct {
	*remote

	without limiter.Algorithm
}

func (s *selective) UnavailableFor(c *limiter.Charge) bool { return c.Limit.Algorithm() == s.without }

// What is unavailable for one kind of counters is decided locally for these alone.
func TestSpend_DecidesLocallyWhatIsUnavailableForItsKind(t *testing.T) {
	w := newWorld()
	log, window := one(t, "log", 9), one(t, "window", 9)
	limit, err := limiter.NewLimit(limiter.FixedWindow, 9, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	window.Limit = limit
	store := failover.New(&selective{w.remote, limiter.FixedWindow}, w.local, w.clock, slog.New(slog.DiscardHandler))
	d, err := store.Spend(t.Context(), []limiter.Charge{log, window})
	if err != nil || d[0].Origin != limiter.OriginStore || d[1].Origin != limiter.OriginLocal {
		t.Fatalf("%+v, %v, want the second one decided locally", d, err)
	}
	if err := store.Refund(t.Context(), []limiter.Refund{{Key: "window", Limit: limit, Cost: 1, At: d[1].At}}); err != nil || w.localUnits(window) != 0 {
		t.Errorf("%d units are spent locally after the refund (%v), want 0", w.localUnits(window), err)
	}
	debt := window
	debt.Debt = true
	if d, err := store.Spend(t.Context(), []limiter.Charge{log, debt}); err != nil || d[1].Origin != limiter.OriginLocal {
		t.Errorf("a debt: %+v, %v, want it decided locally", d, err)
	}
}
