package local_test

import (
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/local"
)

// decided is the decision of a store that has counted used units at an instant.
func decided(clock *clock, l limiter.Limit, used int64) []limiter.Decision {
	return []limiter.Decision{{At: limiter.At(clock.Now()), Allowed: true, Limit: l.Units(), Remaining: l.Capacity() - used}}
}

// Learn is called for each charge of each request, long before an outage.
func TestLearn_AllocatesNothing(t *testing.T) {
	clock := newClock()
	for _, algorithm := range limiter.AlgorithmsWith(func(of *limiter.Traits) bool { return !of.Log }) {
		c := local.New(plenty, clock.Now)
		l := limit(t, algorithm, 100, time.Minute)
		if algorithm == limiter.LeakyBucket {
			l, _ = l.WithBurst(50)
		}
		charges, used := one("key", l, 1), int64(0)
		got := testing.AllocsPerRun(100, func() {
			used = used%50 + 1
			clock.pass(time.Millisecond)
			c.Learn(charges, decided(clock, l, used))
		})
		if got > 1 { // the decision of this test
			t.Errorf("%s: %v allocations, want 1", algorithm, got)
		}
	}
}

// A learned counter takes a fraction of the memory of one with units that were spent here.
func TestLearn_TakesLittleMemory(t *testing.T) {
	const counters = 100_000
	clock := newClock()
	c := local.New(plenty, clock.Now)
	l := limit(t, limiter.SlidingWindowCounter, 100, time.Minute)
	before := heap()
	for i := range counters {
		c.Learn(one("weir:throttle:ip:{"+strconv.Itoa(i)+"}:shop/ip:k3f9q2wz", l, 1), decided(clock, l, 1))
	}
	allocated, stats := heap()-before, c.Stats()
	t.Logf("%d bytes for each counter; %+v", allocated/counters, stats)
	if stats.Held != counters || stats.Evicted != 0 || stats.Bytes > allocated*5/4 || stats.Bytes < allocated*3/4 {
		t.Errorf("%+v, and %d bytes are allocated, want %d counters and about these bytes", stats, allocated, counters)
	}
	if allocated > 192*counters {
		t.Errorf("%d bytes for each counter, want at most 192", allocated/counters)
	}
}

// Within the memory, the counters with the smallest usage make room. What was spent on them is estimated, never too low.
func TestLearn_BoundsMemoryAndEstimatesTheUsageOfEvictedCounters(t *testing.T) {
	const most = 1 << 20
	clock := newClock()
	c := local.New(most, clock.Now)
	l := limit(t, limiter.FixedWindow, 100, time.Hour)
	c.Learn(one("offender", l, 1), decided(clock, l, 100))
	for i := range 20_000 {
		c.Learn(one(fmt.Sprint("key-", i), l, 1), decided(clock, l, 2))
		if stats := c.Stats(); stats.Bytes > most {
			t.Fatalf("%d bytes after %d keys", stats.Bytes, i)
		}
	}
	stats := c.Stats()
	if stats.Held < 2000 || stats.Evicted != int64(20_001-stats.Held) || stats.Lost != 0 {
		t.Errorf("after 20 001 counters: %+v", stats)
	}
	if left := c.Peek(one("offender", l, 0))[0].Remaining; left != 0 {
		t.Errorf("%d units are left on a counter with all units spent", left)
	}
	for i := range 20_000 {
		if left := c.Peek(one(fmt.Sprint("key-", i), l, 0))[0].Remaining; left > 98 {
			t.Fatalf("%d units of 100 are left on counter %d after 2", left, i)
		}
	}
	if c.Stats().Estimated == 0 {
		t.Error("no estimate was counted")
	}
	clock.pass(time.Hour)
	for i := range 5000 {
		c.Learn(one(fmt.Sprint("next-", i), l, 1), decided(clock, l, 1))
	}
	if after := c.Stats(); after.Evicted-stats.Evicted > 2000 {
		t.Errorf("%d counters were evicted in the next window, whose counters have the slots of the last", after.Evicted-stats.Evicted)
	}
}

// What the store has counted when a window ends is known in the next: half of it still counts in the middle of that.
func TestLearn_KnowsThePreviousWindowOfACounter(t *testing.T) {
	clock := newClock()
	c := local.New(plenty, clock.Now)
	l := limit(t, limiter.SlidingWindowCounter, 100, time.Minute)
	c.Learn(one("key", l, 1), decided(clock, l, 80))
	clock.pass(90 * time.Second)
	if left := c.Peek(one("key", l, 0))[0].Remaining; left != 60 {
		t.Errorf("%d units are left, want 60: half of 80 count", left)
	}
	c.Learn(one("key", l, 1), decided(clock, l, 50)) // 40 of the previous window and 10 of this one
	clock.pass(30 * time.Second)
	if left := c.Peek(one("key", l, 0))[0].Remaining; left != 90 {
		t.Errorf("%d units are left when the next window begins, want 90", left)
	}
}

// Units that count no more leave no counter.
func TestLearn_HoldsNoEmptyCounters(t *testing.T) {
	for _, algorithm := range []limiter.Algorithm{limiter.FixedWindow, limiter.SlidingWindowCounter, limiter.TokenBucket} {
		clock := newClock()
		c := local.New(plenty, clock.Now)
		l := limit(t, algorithm, 100, time.Minute)
		for _, step := range []struct {
			name       string
			used, held int
		}{{"without units", 0, 0}, {"with a unit", 1, 1}, {"after a reset", 0, 0}} {
			c.Learn(one("key", l, 1), decided(clock, l, int64(step.used)))
			if held := c.Stats().Held; held != step.held {
				t.Errorf("%s, %s: %d counters are held, want %d", algorithm, step.name, held, step.held)
			}
		}
	}
}

// A key with another algorithm is another counter.
func TestLearn_DistinguishesAlgorithms(t *testing.T) {
	clock := newClock()
	c := local.New(plenty, clock.Now)
	fixed, bucket := limit(t, limiter.FixedWindow, 100, time.Minute), limit(t, limiter.TokenBucket, 100, time.Minute)
	c.Learn(one("key", fixed, 1), decided(clock, fixed, 90))
	if left := c.Peek(one("key", bucket, 0))[0].Remaining; left != 100 {
		t.Errorf("%d units are left in a bucket that nothing was spent from, want 100", left)
	}
	c.Learn(one("key", bucket, 1), decided(clock, bucket, 30))
	if left := c.Peek(one("key", bucket, 0))[0].Remaining; left != 70 {
		t.Errorf("%d units are left, want 70", left)
	}
}

// Decisions of the store that arrive while the first units are spent here are not lost.
func TestLearn_LosesNoDecisionWhenUnitsAreSpentHere(t *testing.T) {
	clock := newClock()
	l := limit(t, limiter.FixedWindow, 1000, time.Hour)
	for range 200 {
		c := local.New(1<<20, clock.Now)
		var both sync.WaitGroup
		for _, do := range []func(){
			func() { c.Learn(one("key", l, 1), decided(clock, l, 500)) },
			func() { c.Spend(one("key", l, 1)) },
			func() { c.Spend(one("other", l, 1)) },
		} {
			both.Go(do)
		}
		both.Wait()
		if left := c.Peek(one("key", l, 0))[0].Remaining; left != 499 {
			t.Fatalf("%d units are left of 1000 after 500 in the store and 1 here", left)
		}
		if charge, _ := c.TakeUnreported("key"); charge.Cost != 1 {
			t.Fatalf("%d units are unreported, want 1", charge.Cost)
		}
	}
}

// After an outage, the counters are again as they were before it, with what is known about them.
func TestLearn_ReleasesTheCountersOfAnOutage(t *testing.T) {
	clock := newClock()
	c := local.New(plenty, clock.Now)
	l := limit(t, limiter.SlidingWindowCounter, 100, time.Minute)
	c.Learn(one("key", l, 1), decided(clock, l, 60))
	c.Spend(one("key", l, 4))
	outage := c.Stats().Bytes
	charge, _ := c.TakeUnreported("key")
	if charge.Cost != 4 {
		t.Fatalf("%d units are unreported, want 4", charge.Cost)
	}
	clock.pass(9 * time.Second)
	c.Learn(one("key", l, 1), decided(clock, l, 65))
	if !c.Returns("key", time.Second) {
		t.Error("the units that were spent here 9 s ago are forgotten")
	}
	clock.pass(time.Second)
	c.Learn(one("key", l, 1), decided(clock, l, 66))
	if stats := c.Stats(); stats.Bytes >= outage || stats.Held != 1 {
		t.Errorf("%+v, want 1 counter, with less memory than %d bytes in the outage", stats, outage)
	}
	clock.pass(80 * time.Second) // half of the units count
	if left := c.Peek(one("key", l, 0))[0].Remaining; left != 67 {
		t.Errorf("%d units are left, want 67", left)
	}
	if charge, has := c.TakeUnreported("key"); has {
		t.Errorf("%d units are unreported", charge.Cost)
	}
}

// What was spent here in the previous window counts as such after the outage.
func TestLearn_ReleasesTheWindowsOfACounter(t *testing.T) {
	clock := newClock()
	c := local.New(plenty, clock.Now)
	l := limit(t, limiter.SlidingWindowCounter, 100, time.Minute)
	c.Learn(one("key", l, 1), decided(clock, l, 60))
	c.Spend(one("key", l, 4))
	c.TakeUnreported("key")
	clock.pass(90 * time.Second)
	c.Learn(one("key", l, 1), decided(clock, l, 42)) // 32 of the previous window and 10 of this one
	clock.pass(30 * time.Second)
	if left := c.Peek(one("key", l, 0))[0].Remaining; left != 90 {
		t.Errorf("%d units are left when the next window begins, want 90", left)
	}
}

func TestSpend_BoundsTheMemoryOfHeldAndLearnedCountersTogether(t *testing.T) {
	const most = 1 << 20
	clock := newClock()
	c := local.New(most, clock.Now)
	l := limit(t, limiter.FixedWindow, 100, time.Hour)
	for i := range 20_000 {
		c.Learn(one("learned-"+strconv.Itoa(i), l, 1), decided(clock, l, 50))
	}
	learned := c.Stats().Bytes
	for i := range 5000 {
		c.Spend(one("spent-"+strconv.Itoa(i), l, 1))
	}
	if stats := c.Stats(); learned < most/4 || stats.Bytes > most || stats.Bytes < most/2 {
		t.Errorf("%d bytes, of these %d of learned counters, want more than %d and at most %d", stats.Bytes, learned, most/2, most)
	}
}

// A caller that refunds units while the store is unavailable finds the counters that were learned.
func TestRefundLatest_RefundsLearnedUnits(t *testing.T) {
	clock := newClock()
	c := local.New(plenty, clock.Now)
	l := limit(t, limiter.FixedWindow, 100, time.Minute)
	c.Learn(one("key", l, 1), decided(clock, l, 60))
	c.RefundLatest(one("key", l, 10)[0])
	if left := c.Peek(one("key", l, 0))[0].Remaining; left != 50 {
		t.Errorf("%d units are left, want 50", left)
	}
}

// A refund of all learned units leaves a counter with all units, which no decision of the store before it changes.
func TestRefundLatest_RefundsAllLearnedUnits(t *testing.T) {
	for _, algorithm := range allAlgorithms() {
		for _, used := range []int64{1, 10} {
			clock := newClock()
			c := local.New(plenty, clock.Now)
			l := limit(t, algorithm, 10, time.Minute)
			if algorithm == limiter.LeakyBucket {
				l, _ = l.WithBurst(9)
			}
			c.Learn(one("key", l, 1), decided(clock, l, used))
			c.RefundLatest(one("key", l, used)[0])
			left, stats := c.Peek(one("key", l, 0))[0].Remaining, c.Stats()
			if left != 10 || stats.Held != 0 {
				t.Errorf("%s: after a refund of all %d learned units, %d of 10 are left and %d counters are held, want 10 and 0", algorithm, used, left, stats.Held)
			}
		}
	}
}

// A report fails while other calls for the same counter succeed: what they decide does not contain the units of the report.
func TestReturnUnreported_KeepsUnitsIfTheStoreDecidesMeanwhile(t *testing.T) {
	for _, since := range []time.Duration{time.Second, 30 * time.Second} { // the last unit spent here: held, and again learned
		for _, used := range []int64{50, 10} {
			for _, more := range []int64{0, 3} { // units spent here while the report is made
				clock := newClock()
				c := local.New(plenty, clock.Now)
				c.Share(local.Peers{Replicas: 2})
				l := limit(t, limiter.FixedWindow, 200, time.Hour)
				c.Spend(one("key", l, 40))
				clock.pass(since)
				charge, _ := c.TakeUnreported("key")
				c.Spend(one("key", l, more))
				c.Learn(one("key", l, 1), decided(clock, l, used))
				c.ReturnUnreported(charge)
				name := fmt.Sprintf("%v after the last unit, %d units in the store, %d more here", since, used, more)
				if left, want := c.Peek(one("key", l, 0))[0].Remaining, (200-used)/2-40-more; left != want {
					t.Errorf("%s: %d units are left, want %d", name, left, want)
				}
				charge, _ = c.TakeUnreported("key")
				if lost := c.Stats().Lost; charge.Cost != 40+more || lost != 0 {
					t.Errorf("%s: %d units are unreported and %d lost, want %d and 0", name, charge.Cost, lost, 40+more)
				}
			}
		}
	}
}

// Two reports of one counter fail. The store decided after the first was taken, and before the second was.
func TestReturnUnreported_KeepsTheUnitsOfTwoReports(t *testing.T) {
	const used, first, second = 6, 40, 3
	for _, algorithm := range []limiter.Algorithm{limiter.FixedWindow, limiter.SlidingWindowLog, limiter.TokenBucket} {
		for _, firstReturnsFirst := range []bool{true, false} {
			clock := newClock()
			c := local.New(plenty, clock.Now)
			c.Share(local.Peers{Replicas: 2})
			l := limit(t, algorithm, 200, time.Hour)
			c.Spend(one("key", l, first))
			reports := make([]local.Report, 2)
			reports[0], _ = c.TakeUnreported("key")
			c.Learn(one("key", l, 1), decided(clock, l, used))
			c.Spend(one("key", l, second))
			reports[1], _ = c.TakeUnreported("key")
			if reports[0].Cost != first || reports[1].Cost != second {
				t.Fatalf("%s: reports of %d and %d units", algorithm, reports[0].Cost, reports[1].Cost)
			}
			if !firstReturnsFirst {
				slices.Reverse(reports)
			}
			for _, r := range reports {
				c.ReturnUnreported(r)
			}
			if left, want := c.Peek(one("key", l, 0))[0].Remaining, int64((200-used)/2-first-second); left != want {
				t.Errorf("%s: %d units are left, want %d", algorithm, left, want)
			}
			if r, _ := c.TakeUnreported("key"); r.Cost != first+second {
				t.Errorf("%s, in order %t: %d units are unreported, want %d", algorithm, firstReturnsFirst, r.Cost, first+second)
			}
		}
	}
}

// What the store decided before a TakeUnreported does not matter for its return.
func TestReturnUnreported_RevertsATakeAfterADecision(t *testing.T) {
	clock := newClock()
	c := local.New(plenty, clock.Now)
	l := limit(t, limiter.FixedWindow, 100, time.Hour)
	c.Learn(one("key", l, 1), decided(clock, l, 20))
	c.Spend(one("key", l, 40))
	charge, _ := c.TakeUnreported("key")
	c.ReturnUnreported(charge)
	if left := c.Peek(one("key", l, 0))[0].Remaining; left != 40 {
		t.Errorf("%d units are left, want 40", left)
	}
}

// After a reset in the store, nothing of what it decided before counts here.
func TestDrop_ForgetsLearnedUnits(t *testing.T) {
	clock := newClock()
	c := local.New(plenty, clock.Now)
	l := limit(t, limiter.FixedWindow, 100, time.Minute)
	c.Learn(one("key", l, 1), decided(clock, l, 100))
	c.Drop("unknown", "key")
	if left, stats := c.Peek(one("key", l, 0))[0].Remaining, c.Stats(); left != 100 || stats.Held != 0 {
		t.Errorf("%d units are left and %d counters are held, want 100 and 0", left, stats.Held)
	}
}

func BenchmarkLearn(b *testing.B) {
	clock := newClock()
	c := local.New(48<<20, time.Now)
	l := limit(b, limiter.SlidingWindowCounter, 100, time.Minute)
	charges := make([][]limiter.Charge, 100_000)
	for i := range charges {
		charges[i] = one("weir:throttle:ip:{"+strconv.Itoa(i)+"}:shop/ip:k3f9q2wz", l, 1)
	}
	decisions := decided(clock, l, 10)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for i := 0; pb.Next(); i++ {
			c.Learn(charges[i*7919%len(charges)], decisions)
		}
	})
}
