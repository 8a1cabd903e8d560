package quarantine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-dev/weir/limiter"
)

// brokenKeys is a probe that fails for some keys.
type brokenKeys struct {
	mu     sync.Mutex
	broken map[string]bool
	probes map[string]int
}

func (b *brokenKeys) probe(_ context.Context, c limiter.Charge) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.probes[c.Key]++
	if b.broken[c.Key] {
		return errors.New("no reply")
	}
	return nil
}

func (b *brokenKeys) set(key string, broken bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.broken[key] = broken
}

func anyLimit() limiter.Limit {
	limit, err := limiter.NewLimit(limiter.Algorithms()[0], 1, time.Second)
	if err != nil {
		panic(err) // the arguments are valid
	}
	return limit
}

func onKeys(keys ...string) (charges []limiter.Charge) {
	for _, key := range keys {
		charges = append(charges, limiter.Charge{Key: key, Limit: anyLimit(), Cost: 1})
	}
	return charges
}

func inQuarantine(t *testing.T, test func(q *Counters, keys *brokenKeys)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		keys := &brokenKeys{broken: map[string]bool{"bad": true}, probes: map[string]int{}}
		test(New(ctx, keys.probe, nil), keys)
		cancel()
		time.Sleep(2 * suspectMemory)
	})
}

func TestCounters_ProbesEachKeyOfAFailedBatch(t *testing.T) {
	inQuarantine(t, func(q *Counters, keys *brokenKeys) {
		keys.mu.Lock() // the probes wait
		q.Fail(onKeys("good", "bad", "other"), time.Now(), false)
		if !q.Rejects("good") || !q.RejectsAny(onKeys("new", "bad")) || q.Rejects("new") {
			t.Error("want the keys of the batch rejected until a probe, and no other")
		}
		keys.mu.Unlock()
		synctest.Wait()
		if q.Rejects("good") || q.Rejects("other") || !q.Rejects("bad") || q.Held() != 1 {
			t.Errorf("%d keys are held after the probes, want the one without a reply", q.Held())
		}
	})
}

// A request waits for the probe that begins right after a failure, and for no later one.
func TestCounters_WaitsForTheFirstProbes(t *testing.T) {
	for name, test := range map[string]struct {
		takes, took time.Duration
		err         error
		failures    int // before
		want        bool
	}{
		"it answers":        {takes: 5 * time.Millisecond, took: 5 * time.Millisecond},
		"it fails":          {takes: 5 * time.Millisecond, took: 5 * time.Millisecond, err: errors.New("no reply"), want: true},
		"it takes too long": {takes: time.Second, took: ProbeWait, want: true},
		"it is a later one": {takes: 5 * time.Millisecond, failures: freeFailures + 1, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				result := errors.New("no reply")
				q := New(ctx, func(context.Context, limiter.Charge) error {
					time.Sleep(test.takes)
					return result
				}, nil)
				for range test.failures {
					q.Fail(onKeys("key"), time.Now(), true)
					time.Sleep(maxQuarantine) // the probe has ended
				}
				result = test.err
				if test.failures <= freeFailures {
					q.Fail(onKeys("key"), time.Now(), true)
				}
				began := time.Now()
				if got := q.IsUnavailable("key"); got != test.want || time.Since(began) != test.took {
					t.Errorf("%t after %v, want %t after %v", got, time.Since(began), test.want, test.took)
				}
				cancel()
				time.Sleep(2 * suspectMemory)
			})
		})
	}
}

func TestCounters_ProbesABrokenKeyLessAndLessOften(t *testing.T) {
	inQuarantine(t, func(q *Counters, keys *brokenKeys) {
		q.Fail(onKeys("bad"), time.Now(), true)
		for range 600 { // a minute
			q.Rejects("bad")
			time.Sleep(100 * time.Millisecond)
		}
		synctest.Wait()
		if n := keys.probes["bad"]; n < 10 || n > 30 {
			t.Errorf("%d probes in a minute, want 10 to 30", n)
		}
		keys.set("bad", false)
		time.Sleep(maxQuarantine * 3 / 2)
		q.Rejects("bad")
		synctest.Wait()
		if q.Rejects("bad") {
			t.Error("a key that answers again is rejected")
		}
		time.Sleep(3 * suspectMemory)
		if q.Isolates(onKeys("bad")) || q.size.Load() != 0 {
			t.Errorf("%d keys are known after the failures no longer count", q.size.Load())
		}
	})
}

// A counter that many requests share fails with each of them that fails. It is not held as long as it answers others.
func TestCounters_DoesNotHoldAKeyThatAnswersOtherCalls(t *testing.T) {
	inQuarantine(t, func(q *Counters, _ *brokenKeys) {
		for range 20 {
			began := time.Now()
			time.Sleep(50 * time.Millisecond)
			q.Answered(slices.Values([][]limiter.Charge{onKeys("shared")}))
			q.Fail(onKeys("shared", "bad"), began, true)
			synctest.Wait()
			if q.Rejects("shared") {
				t.Fatal("the shared key is rejected")
			}
		}
		for range 20 {
			q.Fail(onKeys("unlucky", "bad"), time.Now(), false) // in one batch
			synctest.Wait()
			if q.Rejects("unlucky") {
				t.Fatal("a key is rejected that never failed alone")
			}
		}
		if !q.Isolates(onKeys("new", "unlucky")) || q.Isolates(onKeys("new")) {
			t.Error("want calls on a key that failed several times to be sent alone, and no others")
		}
	})
}

// A counter that fails its own probe repeatedly is decided locally. That is reported, with the reason.
func TestCounters_ReportACounterThatFailsItsProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		keys := &brokenKeys{broken: map[string]bool{"bad": true}, probes: map[string]int{}}
		reported := make(chan string, 100)
		q := New(ctx, keys.probe, func(key string, cause error) { reported <- key + ": " + cause.Error() })
		q.Fail(onKeys("good", "bad"), time.Now(), true)
		synctest.Wait()
		for range 10 {
			q.Rejects("good")
			q.Rejects("bad")
			time.Sleep(time.Second)
		}
		synctest.Wait()
		if n := len(reported); n < 2 || n > 20 {
			t.Fatalf("%d reports, want one for each probe that failed after the first ones", n)
		}
		for range len(reported) {
			if got := <-reported; got != "bad: no reply" {
				t.Errorf("reported %q", got)
			}
		}
		cancel()
		time.Sleep(2 * suspectMemory)
	})
}

func TestCounters_IsBounded(t *testing.T) {
	inQuarantine(t, func(q *Counters, _ *brokenKeys) {
		for i := range 2 * maxSuspects {
			q.Fail(onKeys(fmt.Sprint("key-", i)), time.Now(), true)
		}
		if n := q.size.Load(); n != maxSuspects {
			t.Errorf("%d keys are known, want %d", n, maxSuspects)
		}
		if q.Reset(); q.size.Load() != 0 || q.Rejects("key-1") {
			t.Error("want no keys while the node is unavailable")
		}
	})
}
