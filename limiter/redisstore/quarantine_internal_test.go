package redisstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/redisclient"
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

func onKeys(keys ...string) (charges []limiter.Charge) {
	for _, key := range keys {
		charges = append(charges, limiter.Charge{Key: key, Limit: probeLimit(), Cost: 1})
	}
	return charges
}

func inQuarantine(t *testing.T, test func(q *quarantine, keys *brokenKeys)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		keys := &brokenKeys{broken: map[string]bool{"bad": true}, probes: map[string]int{}}
		test(newQuarantine(ctx, keys.probe), keys)
		cancel()
		time.Sleep(2 * suspectMemory)
	})
}

func TestQuarantine_ProbesEachKeyOfAFailedBatch(t *testing.T) {
	inQuarantine(t, func(q *quarantine, _ *brokenKeys) {
		q.fail(onKeys("good", "bad", "other"), time.Now(), false)
		if !q.rejects("good") || !q.rejectsAny(onKeys("new", "bad")) || q.rejects("new") {
			t.Error("want the keys of the batch rejected until a probe, and no other")
		}
		synctest.Wait()
		if q.rejects("good") || q.rejects("other") || !q.rejects("bad") || q.held() != 1 {
			t.Errorf("%d keys are held after the probes, want the one without a reply", q.held())
		}
	})
}

// A request waits for the probe that begins right after a failure, and for no later one.
func TestQuarantine_WaitsForTheFirstProbes(t *testing.T) {
	for name, test := range map[string]struct {
		takes, took time.Duration
		err         error
		failures    int // before
		want        bool
	}{
		"it answers":        {takes: 5 * time.Millisecond, took: 5 * time.Millisecond},
		"it fails":          {takes: 5 * time.Millisecond, took: 5 * time.Millisecond, err: errors.New("no reply"), want: true},
		"it takes too long": {takes: time.Second, took: probeWait, want: true},
		"it is a later one": {takes: 5 * time.Millisecond, failures: freeFailures + 1, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				result := errors.New("no reply")
				q := newQuarantine(ctx, func(context.Context, limiter.Charge) error {
					time.Sleep(test.takes)
					return result
				})
				for range test.failures {
					q.fail(onKeys("key"), time.Now(), true)
					time.Sleep(maxQuarantine) // the probe has ended
				}
				result = test.err
				if test.failures <= freeFailures {
					q.fail(onKeys("key"), time.Now(), true)
				}
				began := time.Now()
				if got := q.isUnavailable("key"); got != test.want || time.Since(began) != test.took {
					t.Errorf("%t after %v, want %t after %v", got, time.Since(began), test.want, test.took)
				}
				cancel()
				time.Sleep(2 * suspectMemory)
			})
		})
	}
}

func TestQuarantine_ProbesABrokenKeyLessAndLessOften(t *testing.T) {
	inQuarantine(t, func(q *quarantine, keys *brokenKeys) {
		q.fail(onKeys("bad"), time.Now(), true)
		for range 600 { // a minute
			q.rejects("bad")
			time.Sleep(100 * time.Millisecond)
		}
		synctest.Wait()
		if n := keys.probes["bad"]; n < 10 || n > 30 {
			t.Errorf("%d probes in a minute, want 10 to 30", n)
		}
		keys.set("bad", false)
		time.Sleep(maxQuarantine * 3 / 2)
		q.rejects("bad")
		synctest.Wait()
		if q.rejects("bad") {
			t.Error("a key that answers again is rejected")
		}
		time.Sleep(3 * suspectMemory)
		if q.isolates(onKeys("bad")) || q.size.Load() != 0 {
			t.Errorf("%d keys are known after the failures no longer count", q.size.Load())
		}
	})
}

// A counter that many requests share fails with each of them that fails. It is not held as long as it answers others.
func TestQuarantine_DoesNotHoldAKeyThatAnswersOtherCalls(t *testing.T) {
	inQuarantine(t, func(q *quarantine, _ *brokenKeys) {
		for range 20 {
			began := time.Now()
			time.Sleep(50 * time.Millisecond)
			q.answered([]*call{{charges: onKeys("shared")}})
			q.fail(onKeys("shared", "bad"), began, true)
			synctest.Wait()
			if q.rejects("shared") {
				t.Fatal("the shared key is rejected")
			}
		}
		for range 20 {
			q.fail(onKeys("unlucky", "bad"), time.Now(), false) // in one batch
			synctest.Wait()
			if q.rejects("unlucky") {
				t.Fatal("a key is rejected that never failed alone")
			}
		}
		if !q.isolates(onKeys("new", "unlucky")) || q.isolates(onKeys("new")) {
			t.Error("want calls on a key that failed several times to be sent alone, and no others")
		}
	})
}

func TestQuarantine_IsBounded(t *testing.T) {
	inQuarantine(t, func(q *quarantine, _ *brokenKeys) {
		for i := range 2 * maxSuspects {
			q.fail(onKeys(fmt.Sprint("key-", i)), time.Now(), true)
		}
		if n := q.size.Load(); n != maxSuspects {
			t.Errorf("%d keys are known, want %d", n, maxSuspects)
		}
		if q.reset(); q.size.Load() != 0 || q.rejects("key-1") {
			t.Error("want no keys while the node is unavailable")
		}
	})
}

func TestSuspectCharges_AreThoseOfErrorsThatACounterCanCause(t *testing.T) {
	for reply, want := range map[string]bool{
		"": false, "ERR user_script:12: attempt to compare nil with number": true, "NOPERM no permissions to access a key": true,
		"MOVED 1 127.0.0.1:1": false, "OOM command not allowed": false, "BUSY Redis is busy": false, "LOADING Redis is loading": false,
	} {
		c := &call{charges: onKeys("key")}
		if reply != "" {
			c.reply.err = redisclient.WithKind(replyError(reply))
		}
		if got := len(suspectCharges([]*call{c})) > 0; got != want {
			t.Errorf("%q: %v, want %v", reply, got, want)
		}
	}
}

// replyError is an error reply of Redis.
type replyError string

func (e replyError) Error() string { return string(e) }
func (replyError) RedisError()     {}
