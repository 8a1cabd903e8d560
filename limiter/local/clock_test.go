package local_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/local"
	"github.com/weir-dev/weir/limiter/memstore"
)

// jumps are changes of the clock of the store, in both directions: at most a window of the tests, or much more.
var jumps = []time.Duration{-time.Hour, -6 * time.Minute, -45 * time.Second, 45 * time.Second, 6 * time.Minute, time.Hour}

// awaitUnit returns how long one unit of key is denied from now on.
func awaitUnit(t *testing.T, clock *clock, c *local.Counters, key string, l limiter.Limit, most time.Duration) time.Duration {
	t.Helper()
	began := clock.now
	for {
		d := c.Peek(one(key, l, 1))[0]
		if d.Allowed {
			return clock.now.Sub(began)
		}
		if d.RetryAfter > most {
			t.Errorf("%v: retry after %v, want at most %v", l, d.RetryAfter, most)
		}
		if clock.now.Sub(began) > most {
			return clock.now.Sub(began)
		}
		clock.pass(time.Second)
	}
}

// The clock of the store jumps, and jumps back. Then the store is unavailable. Whatever was learned at the wrong time, no counter is denied
// for longer than its limit can deny.
func TestSpend_AJumpOfTheStoresClockProlongsNoDenial(t *testing.T) {
	for _, algorithm := range allAlgorithms() {
		for _, jump := range jumps {
			for _, memory := range []int{plenty, oneCounter} {
				name := fmt.Sprintf("%s by %v with %d bytes", algorithm, jump, memory)
				t.Run(name, func(t *testing.T) {
					clock, wrong := newClock(), time.Duration(0)
					store, c := memstore.New(func() time.Time { return clock.now.Add(wrong) }), local.New(memory, clock.Now)
					l := limit(t, algorithm, 10, time.Minute)
					learn(t, store, c, one("before", l, 10))
					wrong = jump
					learn(t, store, c, one("meanwhile", l, 10))
					learn(t, store, c, one("both", l, 1))
					clock.pass(time.Second)
					wrong = 0
					learn(t, store, c, one("both", l, 9))
					most := l.LongestWait() + time.Second // an estimate counts whole seconds
					for _, key := range []string{"before", "meanwhile", "both"} {
						local := c.Spend(one(key, l, 1))[0]
						if waited := awaitUnit(t, clock, c, key, l, most); waited > most {
							t.Errorf("%s: denied for %v, want at most %v (%+v)", key, waited, most, local)
						}
					}
				})
			}
		}
	}
}

func TestSpend_UsesTheClockOfTheStoreAndNotTheTimeOfACounterThatIsAhead(t *testing.T) {
	clock := newClock()
	c := local.New(plenty, clock.Now)
	daily, short := limit(t, limiter.FixedWindow, 10, 24*time.Hour), limit(t, limiter.FixedWindow, 10, time.Minute)
	at := limiter.At(clock.now)
	c.Learn(one("short", short, 10), []limiter.Decision{{At: at, Remaining: 0, Allowed: true}})
	c.Learn(one("daily", daily, 1), []limiter.Decision{{At: at.Add(12 * time.Hour), Ahead: 12 * time.Hour, Remaining: 9, Allowed: true}})
	if d := c.Spend(one("short", short, 1))[0]; d.Allowed || d.RetryAfter != time.Minute {
		t.Errorf("%+v, want a denial for a minute", d)
	}
}

func TestReturns_DoesNotDependOnTheClockOfTheStore(t *testing.T) {
	clock := newClock()
	c := local.New(plenty, clock.Now)
	l := limit(t, limiter.FixedWindow, 10, time.Hour)
	c.Learn(one("other", l, 1), []limiter.Decision{{At: limiter.At(clock.now.Add(time.Hour)), Remaining: 9, Allowed: true}})
	c.Spend(one("key", l, 1))
	returned := c.Returns("key", time.Second)
	c.Learn(one("other", l, 1), []limiter.Decision{{At: limiter.At(clock.now), Remaining: 9, Allowed: true}})
	clock.pass(time.Second)
	if returns := c.Returns("key", time.Second); !returned || returns {
		t.Errorf("returns: %t, and %t a second later", returned, returns)
	}
}
