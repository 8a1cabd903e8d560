package local_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/local"
	"github.com/weir-dev/weir/limiter/memstore"
)

// When the memory is full, the counters with the smallest part of their limit go first, and never the one that is spent on.
func TestSpend_EvictsTheCountersWithTheSmallestUsage(t *testing.T) {
	clock := newClock()
	c := local.New(4*3000, clock.Now) // some 9000 bytes for counters of about 280 bytes
	l := limit(t, limiter.FixedWindow, 100, time.Hour)
	used := func(key string) int64 { return 100 - c.Peek(one(key, l, 0))[0].Remaining }
	for range 90 {
		c.Spend(one("heavy", l, 1))
	}
	before := c.Stats()
	for i := range 200 {
		c.Spend(one(fmt.Sprint("light-", i), l, 2))
	}
	stats := c.Stats()
	if stats.Held < 20 || stats.Held > 45 || stats.Evicted != int64(201-stats.Held) || stats.Lost != 2*stats.Evicted {
		t.Errorf("after 200 counters: %+v", stats)
	}
	if got := used("heavy"); got != 90 || before.Evicted != 0 {
		t.Errorf("%d units count on the counter with the highest usage, want 90", got)
	}
	if got := used("light-0"); got < 2 {
		t.Errorf("%d units count on a counter that may be evicted, want at least 2", got)
	}
	clock.pass(time.Hour)
	if got := used("light-0"); got != 0 {
		t.Errorf("%d units count after the window, want 0", got)
	}
}

func TestSpend_BoundsMemoryAndEstimatesTheUsageOfEvictedCounters(t *testing.T) {
	const most = 1 << 20
	clock := newClock()
	c := local.New(most, clock.Now)
	l := limit(t, limiter.FixedWindow, 10, time.Hour)
	for range 10 {
		c.Spend(one("offender", l, 1))
	}
	for i := range 20_000 {
		c.Spend(one(fmt.Sprintf("key-%d", i), l, 1))
		if stats := c.Stats(); stats.Bytes > most {
			t.Fatalf("%d bytes after %d keys", stats.Bytes, i)
		}
	}
	stats := c.Stats()
	if stats.Held < 500 || stats.Evicted != int64(20_001-stats.Held) || stats.Lost != stats.Evicted {
		t.Errorf("after 20 001 counters with at least one unit each: %+v", stats)
	}
	// The counter with the most units is evicted last. After its eviction it does not begin at zero either.
	if d := c.Peek(one("offender", l, 1))[0]; d.Allowed {
		t.Errorf("the offender is admitted: %+v", d)
	}
	fresh, known := 0, 0
	for i := range 20_000 {
		switch d := c.Peek(one(fmt.Sprintf("key-%d", i), l, 0))[0]; {
		case d.Remaining > 9:
			fresh++
		case d.Remaining == 9: // an estimate is never too low, and may be higher
			known++
		}
	}
	if fresh != 0 || known < 15_000 {
		t.Errorf("of 20 000 counters, %d begin at zero and %d with exactly what they had spent", fresh, known)
	}
	if after := c.Stats(); after.Estimated == 0 {
		t.Error("no estimate was counted")
	}
	clock.pass(time.Hour)
	if d := c.Peek(one("key-0", l, 0))[0]; d.Remaining != 10 {
		t.Errorf("in the next window %d remain", d.Remaining)
	}
}

func TestSpend_DropsExpiredCounters(t *testing.T) {
	clock := newClock()
	c := local.New(plenty, clock.Now)
	l := limit(t, limiter.TokenBucket, 10, time.Second)
	for i := range 50_000 {
		c.Spend(one(fmt.Sprintf("key-%d", i), l, 1))
		clock.pass(time.Millisecond)
	}
	if stats := c.Stats(); stats.Held > 2000 || stats.Evicted != 0 || stats.Unreported > stats.Held {
		t.Errorf("with counters that expire after 0.1 s: %+v", stats)
	}
}

// oneCounter is so little memory that only the last counter is held, and all evicted ones share an estimate.
const oneCounter = 64

func TestSpend_HoldsTheCounterThatIsSpentOnWhateverItsSize(t *testing.T) {
	c := local.New(oneCounter, newClock().Now)
	l := limit(t, limiter.FixedWindow, 100, time.Hour)
	for i, cost := range []int64{50, 1, 20} {
		key := fmt.Sprint("key-", i)
		c.Spend(one(key, l, cost))
		if keys := c.UnreportedKeys(10); len(keys) != 1 || keys[0] != key {
			t.Errorf("after a request for %s, %v are held", key, keys)
		}
	}
	if stats := c.Stats(); stats.Held != 1 || stats.Evicted != 2 || stats.Lost != 51 {
		t.Errorf("%+v, want 1 counter, and 2 evicted ones with 50 and 1 lost units", stats)
	}
}

// Counters that share an estimate begin with the highest of their usages, as long as its units count, and not longer.
func TestSpend_BeginsEvictedCountersWithTheHighestEstimateThatStillCounts(t *testing.T) {
	clock := newClock()
	clock.pass(400 * time.Millisecond) // the estimate counts whole seconds
	c := local.New(oneCounter, clock.Now)
	l := limit(t, limiter.SlidingWindowLog, 100, time.Minute)
	used := func(key string) int64 { return 100 - c.Peek(one(key, l, 0))[0].Remaining }
	c.Spend(one("heavy", l, 90))
	c.Spend(one("light", l, 2)) // evicts heavy
	if d := c.Spend(one("third", l, 1))[0]; d.Remaining != 9 {
		t.Errorf("%d units are left after one unit on a counter that shares its estimate with 90, want 9", d.Remaining)
	}
	clock.pass(time.Minute - time.Microsecond)
	if got := used("heavy"); got != 90 {
		t.Errorf("%d units count just before the window ends, want 90", got)
	}
	clock.pass(time.Second)
	if got := used("heavy"); got != 0 {
		t.Errorf("%d units count after the window, want 0", got)
	}
	c.Spend(one("next", l, 5))
	c.Spend(one("last", l, 1)) // evicts next
	if got := used("heavy"); got != 5 {
		t.Errorf("%d units are estimated after 5 in this window and 90 in the one before, want 5", got)
	}
}

func TestStats_EstimatedCountsTheDecisionsThatBeginWithAnEstimate(t *testing.T) {
	clock := newClock()
	c := local.New(oneCounter, clock.Now)
	l := limit(t, limiter.FixedWindow, 100, time.Minute)
	c.Spend(one("first", l, 1))
	c.Spend(one("second", l, 1)) // evicts first
	if n := c.Stats().Estimated; n != 0 {
		t.Errorf("%d estimates before any counter was evicted", n)
	}
	c.Peek(one("first", l, 1))
	c.Peek(one("second", l, 1)) // is held
	if n := c.Stats().Estimated; n != 1 {
		t.Errorf("%d estimates, want 1", n)
	}
	clock.pass(time.Minute)
	c.Peek(one("first", l, 1))
	if n := c.Stats().Estimated; n != 1 {
		t.Errorf("%d estimates in the next window, want still 1", n)
	}
}

// A counter whose window has ended is neither evicted nor estimated nor lost, even if its memory is needed in that instant.
func TestSpend_DropsCountersInTheInstantInWhichTheyExpire(t *testing.T) {
	clock := newClock()
	c := local.New(4*3000, clock.Now)
	l := limit(t, limiter.FixedWindow, 100, time.Minute)
	for i := range 20 {
		c.Spend(one(fmt.Sprint("key-", i), l, 90))
	}
	clock.pass(time.Minute)
	c.Spend(one(strings.Repeat("k", 7000), l, 1)) // leaves no memory for most of the others
	stats := c.Stats()
	if stats.Held > 10 || stats.Evicted != 0 || stats.Lost != 0 || stats.Estimated != 0 {
		t.Errorf("%+v, want at most 10 counters, and none evicted, lost or estimated", stats)
	}
	few := local.New(plenty, clock.Now)
	few.Spend(one("first", l, 1))
	few.Spend(one("second", l, 1))
	clock.pass(time.Minute)
	few.Spend(one("third", l, 1))
	if stats := few.Stats(); stats.Held != 1 || stats.Unreported != 1 {
		t.Errorf("%+v, want only the counter of the current window", stats)
	}
}

// A request looks at a few counters, however many are held: requests wait for each other.
func TestSpend_LooksAtAFewCountersPerRequest(t *testing.T) {
	clock := newClock()
	c := local.New(plenty, clock.Now)
	l := limit(t, limiter.FixedWindow, 1000, time.Minute)
	for i := range 1000 {
		c.Spend(one(fmt.Sprint("key-", i), l, 1))
	}
	clock.pass(time.Minute)
	c.Spend(one("next", l, 1))
	if held := c.Stats().Held; held < 990 || held > 1000 {
		t.Errorf("%d counters are held after one request in the next window, want almost the 1000 that have expired", held)
	}
	always := true // evicts the counter with the smallest usage, for which it must look at all
	for range 10 {
		c := local.New(80_000, clock.Now)
		for units := int64(1); c.Stats().Evicted == 0; units++ {
			c.Spend(one(fmt.Sprint("key-", units), l, units))
		}
		always = always && c.Stats().Lost == 1
	}
	if always {
		t.Error("ten times of ten, the smallest of some 200 counters was evicted")
	}
}

// fill spends on n counters whose keys have a length, at the given number of instants each.
func fill(t *testing.T, c *local.Counters, clock *clock, l limiter.Limit, n, length, instants int) {
	t.Helper()
	for i := range instants {
		if i > 0 {
			clock.pass(2 * time.Minute)
		}
		for k := range n {
			key := fmt.Sprintf("%0*d", length, k)
			if d := c.Spend(one(key, l, 1))[0]; !d.Allowed {
				t.Fatalf("denied: %+v", d)
			}
		}
	}
}

// The figure is approximate. It is near what the Go runtime has allocated, for short and for long keys, and for large states.
func TestStats_BytesIsTheMemoryOfTheCounters(t *testing.T) {
	for name, test := range map[string]struct {
		algorithm                  limiter.Algorithm
		counters, length, instants int
	}{
		"short keys": {limiter.FixedWindow, 20_000, 8, 1},
		"long keys":  {limiter.FixedWindow, 5_000, 1000, 1},
		"large logs": {limiter.SlidingWindowLog, 2_000, 40, 50},
	} {
		t.Run(name, func(t *testing.T) {
			clock := newClock()
			c := local.New(plenty, clock.Now)
			before := heap()
			fill(t, c, clock, limit(t, test.algorithm, 1000, 6*time.Hour), test.counters, test.length, test.instants)
			allocated, bytes := heap()-before, c.Stats().Bytes
			t.Logf("%d bytes reported, %d allocated", bytes, allocated)
			if c.Stats().Held != test.counters || bytes < allocated*2/3 || bytes > allocated*3/2 {
				t.Errorf("%d bytes for %d counters, want about %d", bytes, c.Stats().Held, allocated)
			}
		})
	}
}

// A counter with unreported units also holds what the store knows about it.
func TestStats_BytesIncludesBothStatesOfCountersWithUnreportedUnits(t *testing.T) {
	clock := newClock()
	store, c := memstore.New(clock.Now), local.New(plenty, clock.Now)
	l := limit(t, limiter.SlidingWindowLog, 1000, 6*time.Hour)
	for range 50 {
		learn(t, store, c, one("key", l, 1))
		clock.pass(6 * time.Minute)
	}
	reported := c.Stats().Bytes
	c.Spend(one("key", l, 1))
	if both := c.Stats().Bytes; reported < 50*24 || both < reported+50*24 {
		t.Errorf("%d bytes with 50 instants, and %d with a unit that is not reported, want 24 more for each instant", reported, both)
	}
}

// heap is the number of bytes that are in use.
func heap() int {
	var stats runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return int(stats.HeapAlloc)
}

func TestNew_BoundsTheMemoryOfHeldAndEvictedCounters(t *testing.T) {
	const most = 8 << 20
	clock := newClock()
	c := local.New(most, clock.Now)
	before := heap()
	fill(t, c, clock, limit(t, limiter.FixedWindow, 1000, 6*time.Hour), 60_000, 40, 1)
	allocated := heap() - before
	t.Logf("%d", allocated)
	if stats := c.Stats(); stats.Evicted == 0 || allocated > most*5/4 || allocated < most*3/4 {
		t.Errorf("%d bytes are allocated, want about %d: %+v", allocated, most, stats)
	}
}

// Counters are evicted only if they do not fit.
func TestSpend_EvictsNothingWhileEveryCounterFits(t *testing.T) {
	clock := newClock()
	l := limit(t, limiter.FixedWindow, 10, time.Hour)
	single := local.New(plenty, clock.Now)
	single.Spend(one("00", l, 1))
	room := 12 * single.Stats().Bytes
	c := local.New(room/3*4, clock.Now) // a quarter is for the estimates
	fill(t, c, clock, l, 12, 2, 1)
	if stats := c.Stats(); stats.Held != 12 || stats.Evicted != 0 || stats.Bytes != room {
		t.Errorf("with memory for 12 counters: %+v", stats)
	}
	c.Spend(one("12", l, 1))
	if stats := c.Stats(); stats.Held != 12 || stats.Evicted != 1 {
		t.Errorf("with memory for 12 counters, after 13: %+v", stats)
	}
}
