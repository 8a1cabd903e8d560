package lease

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-dev/weir/limiter"
)

func TestExpire_LooksAgainWhenTheLeaseEndsOrTheCounterIsIdle(t *testing.T) {
	const second = instant(time.Second)
	for name, test := range map[string]struct {
		until, touched instant // of the lease; 0: no lease
		spending       bool
		next           instant // 0: the entry is removed
		ended          bool
	}{
		"a lease":                              {until: now + 1, touched: now, next: now + 1},
		"a lease that ends now":                {until: now, touched: now, next: now + second, ended: true},
		"no lease":                             {touched: now, next: now + second},
		"the last charge before twice the age": {touched: now - 2*second + 1, next: now + second},
		"idle for twice the age":               {touched: now - 2*second},
		"idle, with an old lease":              {until: now - second, touched: now - 2*second, ended: true},
		"a lease is being made":                {touched: now - 9*second, spending: true, next: now + second},
	} {
		l := newLeases()
		e := &entry{key: "key", touched: test.touched, spending: test.spending, maxAge: time.Second}
		l.entries.Store("key", e)
		l.count.Store(1)
		if test.until != 0 {
			e.lease.Store(leased(logLimit(t, 1000), 10, 4, test.until))
		}
		next, keep := l.expire(e, now)
		if keep != (test.next != 0) || keep && next != test.next {
			t.Errorf("%s: next at %d, %v, want %d", name, next, keep, test.next)
		}
		if _, found := l.entries.Load("key"); found != keep || e.removed == keep || (l.count.Load() == 1) != keep {
			t.Errorf("%s: found %v, removed %v, %d entries", name, found, e.removed, l.count.Load())
		}
		if ended := len(l.schedule.returnsBy(now)) == 1; ended != test.ended {
			t.Errorf("%s: ended is %v, want %v", name, ended, test.ended)
		}
	}
}

func TestRest_SchedulesNothingForNoUnits(t *testing.T) {
	l := newLeases()
	l.end(leased(logLimit(t, 1000), 10, 0, now))
	if got := l.metrics.admitted.Load(); !l.schedule.empty() || got != 10 {
		t.Errorf("%d units count as admitted, want 10 and no return", got)
	}
}

// outage is a store that counts calls.
type outage struct {
	limiter.Store

	unavailable bool
	asked       int
	err         error // of Refund

	mu    sync.Mutex
	calls []int // refunds in each call
}

func (o *outage) Unavailable(string) bool { o.asked++; return o.unavailable }

func (o *outage) Refund(_ context.Context, refunds []limiter.Refund) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.calls = append(o.calls, len(refunds))
	return o.err
}

func (o *outage) refunds() []int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.calls)
}

func TestSendReturns_TriesAnUnavailableCounterOnceASecond(t *testing.T) {
	o := &outage{unavailable: true}
	l := newLeases()
	l.remote = o
	l.rest(leased(logLimit(t, 1000), 10, 4, now), 4)
	for round := range 30 {
		l.sendReturns(t.Context(), now+at(time.Duration(round)*100*time.Millisecond))
	}
	if o.asked != 3 || len(o.calls) != 0 {
		t.Errorf("tried %d times in 2.9 s, %v refunds; want 3 and none", o.asked, o.calls)
	}
}

// Units that were spent a window ago do not count any more.
func TestSendReturns_ReturnsNothingAfterTheWindow(t *testing.T) {
	for end, want := range map[instant][2]int64{now - 1: {4, 0}, now: {4, 0}, now + 1: {0, 4}} {
		o := &outage{}
		l := newLeases()
		l.remote = o
		h := leased(logLimit(t, 1000), 10, 4, now) // in a minute
		h.began = end - at(time.Minute)
		l.rest(h, 4)
		l.sendReturns(t.Context(), now)
		if got := [2]int64{l.metrics.expired.Load(), l.metrics.returned.Load()}; got != want {
			t.Errorf("the window ends %d ns from now: expired and returned %v, want %v", end-now, got, want)
		}
	}
}

func TestSendReturns_BoundsTheRefundsOfACall(t *testing.T) {
	o := &outage{}
	l := newLeases()
	l.remote = o
	for range 300 {
		l.rest(leased(logLimit(t, 1000), 10, 4, now), 4)
	}
	l.sendReturns(t.Context(), now)
	if len(o.calls) != 3 || o.calls[0] != 128 || o.calls[1] != 128 || o.calls[2] != 44 {
		t.Errorf("calls with %v refunds, want 128, 128, 44", o.calls)
	}
	if got := l.metrics.returned.Load(); got != 1200 {
		t.Errorf("%d units returned, want 1200", got)
	}
}

// A slot that fails loses the units of its own counters only.
func TestSendReturns_ExpiresOnlyTheUnitsThatWereNotReturned(t *testing.T) {
	for name, test := range map[string]struct {
		err               error
		expired, returned int64
	}{
		"one slot":     {&limiter.RefundError{Keys: []string{"b"}, Cause: errors.New("no")}, 4, 3},
		"another kind": {errors.New("no"), 7, 0},
		"no error":     {nil, 0, 7},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLeases()
			l.remote = &outage{err: test.err}
			for key, units := range map[string]int64{"a": 3, "b": 4} {
				h := leased(logLimit(t, 1000), 10, units, now)
				h.key = key
				l.rest(h, units)
			}
			l.sendReturns(t.Context(), now)
			if expired, returned := l.metrics.expired.Load(), l.metrics.returned.Load(); expired != test.expired || returned != test.returned {
				t.Errorf("%d units expired and %d were returned, want %d and %d", expired, returned, test.expired, test.returned)
			}
		})
	}
}

// Run sleeps while there are no leases, and returns the units of one within 50 ms of its end.
func TestRun_EndsLeasesOnTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &outage{}
		l := New(o, time.Now)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { l.Run(ctx); close(done) }()
		for round := range 2 { // the second one after Run has had nothing to do
			time.Sleep(time.Hour)
			began := l.toInstant(time.Now())
			e := &entry{key: "key", touched: began, maxAge: time.Second}
			h := leased(logLimit(t, 1000), 10, 4, began+at(time.Second))
			h.began = began
			e.lease.Store(h)
			l.entries.Store("key", e)
			l.count.Add(1)
			l.schedule.add(h.expiresAt, e)
			time.Sleep(999 * time.Millisecond)
			if synctest.Wait(); len(o.refunds()) != round {
				t.Fatalf("lease %d: returned before its end", round)
			}
			time.Sleep(51 * time.Millisecond)
			if synctest.Wait(); len(o.refunds()) != round+1 {
				t.Fatalf("lease %d: not returned 50 ms after its end", round)
			}
			time.Sleep(time.Minute)
			if synctest.Wait(); l.count.Load() != 0 {
				t.Errorf("lease %d: %d entries are left", round, l.count.Load())
			}
		}
		h := leased(logLimit(t, 1000), 10, 4, l.toInstant(time.Now()))
		l.rest(h, 4) // was given back late: no entry is left
		time.Sleep(51 * time.Millisecond)
		if synctest.Wait(); len(o.refunds()) != 3 {
			t.Error("units that were given back late are not returned")
		}
		stop()
		<-done
	})
}

func TestEndAll_EndsLeasesAndMakesNoMore(t *testing.T) {
	o := &outage{}
	l := newLeases()
	l.remote = o
	e, limit := demanding(t)
	e.lease.Store(leased(limit, 40, 0, now+1))
	l.entries.Store("key", e)
	if got := e.plan(l, leaseCharge(limit, 1), now); got == 0 {
		t.Fatal("leased nothing before the end")
	}
	e.spending = false
	l.endAll(t.Context())
	if got := e.plan(l, leaseCharge(limit, 1), now); got != 0 {
		t.Errorf("leased %d units after the end", got)
	}
	if got := l.metrics.admitted.Load(); got != 40 {
		t.Errorf("%d units count as admitted, want 40", got)
	}
}

func TestSchedule_IsEmptyWithoutEntriesAndReturns(t *testing.T) {
	for entries := range 2 {
		for returns := range 2 {
			s := &schedule{wake: make(chan struct{}, 1)}
			for range entries {
				s.add(now, &entry{})
			}
			for range returns {
				s.give(giveUp{})
			}
			if got, want := s.empty(), entries+returns == 0; got != want || (len(s.wake) == 0) != want {
				t.Errorf("%d entries, %d returns: empty is %v, %d values in wake", entries, returns, got, len(s.wake))
			}
		}
	}
}

func TestSchedule_ReturnsTheEntriesThatAreDue(t *testing.T) {
	s := &schedule{wake: make(chan struct{}, 1)}
	for _, when := range []instant{50, 10, 40, 20, 30, 20} {
		s.add(when, &entry{since: when})
	}
	for _, test := range []struct {
		now  instant
		want []instant
	}{{9, nil}, {20, []instant{10, 20, 20}}, {20, nil}, {100, []instant{30, 40, 50}}, {200, nil}} {
		var got []instant
		for _, e := range s.dueBy(test.now) {
			got = append(got, e.since)
		}
		if len(got) != len(test.want) {
			t.Fatalf("at %d: %v, want %v", test.now, got, test.want)
		}
		for i := range got {
			if got[i] != test.want[i] {
				t.Errorf("at %d: %v, want %v", test.now, got, test.want)
			}
		}
	}
}
