package lasting_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/redisstore/lasting"
)

// recorder is an observer, and a probe that fails as set.
type recorder struct {
	mu     sync.Mutex
	events []string
	err    error
	probes int
	ending func()
}

func (r *recorder) add(event string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, event)
}

func (r *recorder) Began(need lasting.Need, cause error) {
	r.add("began " + need.String() + ": " + cause.Error())
}
func (r *recorder) Failed(lasting.Need, error) { r.add("failed") }
func (r *recorder) Ended(lasting.Need)         { r.add("ended") }
func (r *recorder) Ending(context.Context, time.Duration) {
	r.add("ending")
	if r.ending != nil {
		r.ending()
	}
}

func (r *recorder) probe(context.Context, limiter.Charge) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.probes++
	return r.err
}

// seen returns the number of probes, and the events.
func (r *recorder) seen() (probes int, events []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.probes, slices.Clone(r.events)
}

func (r *recorder) set(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = err
}

var errDenied = errors.New("denied")

func need() lasting.Need { return lasting.Need{Algorithm: limiter.FixedWindow, Compact: true} }

// track runs test with a Tracker in a bubble of synctest.
func track(t *testing.T, test func(tracker *lasting.Tracker, r *recorder)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		r := &recorder{err: errDenied}
		test(lasting.New(ctx, r.probe, r), r)
		cancel()
		synctest.Wait()
	})
}

func fail(tracker *lasting.Tracker, times int, every time.Duration) {
	for range times {
		tracker.Failed(need(), limiter.Charge{Key: "key"}, errDenied)
		time.Sleep(every)
	}
	synctest.Wait()
}

func TestTracker_RejectsWhatFailsForASecondUntilItsProbeSucceeds(t *testing.T) {
	track(t, func(tracker *lasting.Tracker, r *recorder) {
		fail(tracker, 10, 100*time.Millisecond) // the last one after 900 ms
		if probes, _ := r.seen(); tracker.HasOutage() || probes > 0 {
			t.Fatalf("%d probes, or an outage, before a second has passed", probes)
		}
		fail(tracker, 1, 0)
		if !tracker.Rejects(need(), false) || tracker.Rejects(lasting.Need{Algorithm: limiter.FixedWindow}, false) || !tracker.Rejects(need(), true) {
			t.Fatal("want this need rejected and no other")
		}
		time.Sleep(3 * time.Second)
		fail(tracker, 10, 100*time.Millisecond) // of calls that were in flight
		before, _ := r.seen()
		time.Sleep(20 * time.Second)
		if probes, _ := r.seen(); probes-before < 6 || probes-before > 20 {
			t.Errorf("%d probes in 20 s, want one in 2 s, give or take a half", probes-before)
		}
		r.set(limiter.ErrNotSent) // the node is unavailable
		_, failures := r.seen()
		time.Sleep(10 * time.Second)
		if _, events := r.seen(); len(events) != len(failures) {
			t.Errorf("events %q of probes that made no call", events[len(failures):])
		}
		r.ending = func() {
			if !tracker.Rejects(need(), false) || tracker.Rejects(need(), true) {
				t.Error("want only reports of usage accepted before the outage has ended")
			}
		}
		r.set(nil)
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if tracker.HasOutage() || tracker.Rejects(need(), false) {
			t.Error("rejects calls after the probe has succeeded")
		}
		_, events := r.seen()
		events = slices.DeleteFunc(events, func(e string) bool { return e == "failed" })
		if want := []string{"began Compact counters of FixedWindow: denied", "ending", "ended"}; !slices.Equal(events, want) {
			t.Errorf("events %q, want %q", events, want)
		}
	})
}

// A few failures, or failures whose probe succeeds, are no outage: a counter can be the reason.
func TestTracker_IgnoresFailuresWithAnotherReason(t *testing.T) {
	for name, test := range map[string]struct {
		times int
		every time.Duration
		err   error
		want  int // probes
	}{
		"a few":                     {2, 2 * time.Second, errDenied, 0},
		"rarely":                    {20, 11 * time.Second, errDenied, 0},
		"the probe succeeds":        {12, 100 * time.Millisecond, nil, 1},
		"the node is unavailable":   {12, 100 * time.Millisecond, limiter.ErrNotSent, 1},
		"it succeeds again":         {24, 100 * time.Millisecond, nil, 2},
		"three within three second": {3, time.Second, nil, 1},
	} {
		t.Run(name, func(t *testing.T) {
			track(t, func(tracker *lasting.Tracker, r *recorder) {
				r.set(test.err)
				fail(tracker, test.times, test.every)
				if probes, events := r.seen(); probes != test.want || tracker.HasOutage() || len(events) > 0 {
					t.Errorf("%d probes, want %d; events %q", probes, test.want, events)
				}
			})
		})
	}
}

func TestNeedOf(t *testing.T) {
	for want, c := range map[string]struct {
		key       string
		algorithm limiter.Algorithm
		units     int64
	}{
		"counters of TokenBucket":            {"weir:{a}", limiter.TokenBucket, 1000},
		"counters of SlidingWindowLog":       {"weir:{a}", limiter.SlidingWindowLog, 256},
		"large counters of SlidingWindowLog": {"weir:{a}", limiter.SlidingWindowLog, 257},
		"Compact counters of FixedWindow":    {"weir:{a}:0#000000000001", limiter.FixedWindow, 1000},
	} {
		limit, err := limiter.NewLimit(c.algorithm, c.units, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		if got := lasting.NeedOf(c.key, limit, 256).String(); got != want {
			t.Errorf("%+v: %q, want %q", c, got, want)
		}
	}
}

func TestTracker_NilHasNoOutage(t *testing.T) {
	var none *lasting.Tracker
	if none.HasOutage() || none.Rejects(need(), false) {
		t.Error("a nil Tracker rejects calls")
	}
}
