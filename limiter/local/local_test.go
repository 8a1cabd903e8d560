package local_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/local"
	"github.com/weir-dev/weir/limiter/memstore"
)

const plenty = 1 << 30 // bytes

// clock moves only by pass.
type clock struct{ now time.Time }

func newClock() *clock { return &clock{time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)} }

func (c *clock) Now() time.Time          { return c.now }
func (c *clock) pass(wait time.Duration) { c.now = c.now.Add(wait) }

func limit(t testing.TB, algorithm limiter.Algorithm, units int64, window time.Duration) limiter.Limit {
	t.Helper()
	l, err := limiter.NewLimit(algorithm, units, window)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func one(key string, l limiter.Limit, cost int64) []limiter.Charge {
	return []limiter.Charge{{Key: key, Limit: l, Cost: cost}}
}

// drain spends single units until one is denied, and returns the number that were admitted.
func drain(c *local.Counters, key string, l limiter.Limit) (units int64) {
	for c.Spend(one(key, l, 1))[0].Allowed {
		units++
	}
	return units
}

// learn lets the store decide, and passes its decisions to c.
func learn(t testing.TB, store limiter.Store, c *local.Counters, charges []limiter.Charge) {
	t.Helper()
	decisions, err := store.Spend(t.Context(), charges)
	if err != nil {
		t.Fatal(err)
	}
	c.Learn(charges, decisions)
}

func allAlgorithms() []limiter.Algorithm {
	return limiter.Algorithms()
}

// All replicas know how many units of a limit are spent. Together they admit exactly the rest. No replica admits more than its share: a
// replica that alone is cut off from Redis admits at most L/R, rounded up.
func TestSpend_ReplicasAdmitExactlyWhatIsLeft(t *testing.T) {
	for _, algorithm := range allAlgorithms() {
		t.Run(string(algorithm), func(t *testing.T) {
			for _, units := range []int64{1, 2, 3, 4, 10, 100} {
				for _, spent := range []int64{0, 1, units / 2, units} {
					for _, replicas := range []int64{1, 2, 3, 7} {
						if got := admittedByAll(t, algorithm, units, spent, replicas); got != units-spent {
							t.Errorf("%d replicas admit %d units of a limit of %d with %d spent", replicas, got, units, spent)
						}
					}
				}
			}
		})
	}
}

// admittedByAll is the number of units that replicas admit together when each knows the units that are spent.
func admittedByAll(t *testing.T, algorithm limiter.Algorithm, units, spent, replicas int64) (admitted int64) {
	clock := newClock()
	l := limit(t, algorithm, units, time.Hour)
	if algorithm == limiter.LeakyBucket {
		var err error
		if l, err = l.WithBurst(units - 1); err != nil {
			t.Fatal(err)
		}
	}
	for rank := range replicas {
		store := memstore.New(clock.Now)
		c := local.New(plenty, clock.Now)
		c.Share(local.Peers{Replicas: replicas, Rank: rank})
		if spent > 0 {
			learn(t, store, c, one("key", l, spent))
		}
		own := drain(c, "key", l)
		if share := (units - spent + replicas - 1) / replicas; own > share {
			t.Errorf("replica %d of %d admits %d units of a limit of %d with %d spent, want at most its share of %d", rank, replicas, own, units, spent, share)
		}
		admitted += own
	}
	return admitted
}

func TestSpend_ReturnsTheShareAndTheWaitForItsNextUnit(t *testing.T) {
	clock := newClock()
	c := local.New(plenty, clock.Now)
	c.Share(local.Peers{Replicas: 3, Rank: 0})
	l := limit(t, limiter.FixedWindow, 10, time.Minute)
	want := []struct {
		allowed   bool
		remaining int64
		retry     time.Duration
	}{{true, 3, 0}, {true, 2, 0}, {true, 1, 0}, {true, 0, 0}, {false, 0, time.Minute}}
	for i, w := range want {
		d := c.Spend(one("key", l, 1))[0]
		if d.Allowed != w.allowed || d.Remaining != w.remaining || d.RetryAfter != w.retry || d.Limit != 10 {
			t.Errorf("request %d: %+v, want %+v of 10", i+1, d, w)
		}
	}
	clock.pass(time.Minute)
	if d := c.Spend(one("key", l, 1))[0]; !d.Allowed || d.Remaining != 3 {
		t.Errorf("in the next window: %+v", d)
	}
}

func TestSpend_RetryAfterIsNeverOnlyIfTheLimitCannotAdmitTheCost(t *testing.T) {
	c := local.New(plenty, newClock().Now)
	c.Share(local.Peers{Replicas: 3, Rank: 2})
	l := limit(t, limiter.FixedWindow, 10, time.Minute)
	single := limit(t, limiter.FixedWindow, 1, time.Minute)
	for what, test := range map[string]struct {
		limit limiter.Limit
		cost  int64
		retry time.Duration
	}{
		"a cost above the share":                {l, 5, time.Second},
		"a cost above the limit":                {l, 11, limiter.Never},
		"a limit with no unit for this replica": {single, 1, time.Second},
		"a cost above that limit":               {single, 2, limiter.Never},
		"a cost beyond all limits":              {l, 1 << 62, limiter.Never},
		"a cost beyond all limits, single":      {single, 1 << 62, limiter.Never},
	} {
		if d := c.Spend(one("key", test.limit, test.cost))[0]; d.Allowed || d.RetryAfter != test.retry || d.Remaining < 0 {
			t.Errorf("%s: %+v, want a retry after %v", what, d, test.retry)
		}
	}
	if stats := c.Stats(); stats.Held != 0 {
		t.Errorf("%d counters are held for denied requests, want 0", stats.Held)
	}
}

func TestSpend_ChargesAllOrNothingAndPeekChangesNothing(t *testing.T) {
	c := local.New(plenty, newClock().Now)
	wide, tight := limit(t, limiter.FixedWindow, 10, time.Minute), limit(t, limiter.FixedWindow, 1, time.Minute)
	both := []limiter.Charge{{Key: "wide", Limit: wide, Cost: 1}, {Key: "tight", Limit: tight, Cost: 1}}
	c.Peek(both)
	if d := c.Spend(both); !d[0].Allowed || d[0].Remaining != 9 || !d[1].Allowed {
		t.Fatalf("first request: %+v", d)
	}
	if d := c.Spend(both); !d[0].Allowed || d[0].Remaining != 9 || d[1].Allowed {
		t.Errorf("second request: %+v", d)
	}
	shadowed := []limiter.Charge{both[0], {Key: "tight", Limit: tight, Cost: 1, Shadow: true}}
	if d := c.Spend(shadowed); !d[0].Allowed || d[0].Remaining != 8 || d[1].Allowed {
		t.Errorf("with a shadow charge that is denied: %+v", d)
	}
}

func TestRefund_LeavesUnitsNeitherSpentNorUnreported(t *testing.T) {
	for _, algorithm := range allAlgorithms() {
		c := local.New(plenty, newClock().Now)
		c.Share(local.Peers{Replicas: 3, Rank: 0})
		l := limit(t, algorithm, 30, time.Minute)
		if algorithm == limiter.LeakyBucket {
			l, _ = l.WithBurst(29)
		}
		charges := one("key", l, 4)
		before := c.Peek(one("key", l, 0))[0].Remaining
		c.Refund(charges, c.Spend(charges))
		if after := c.Peek(one("key", l, 0))[0].Remaining; after != before {
			t.Errorf("%s: %d units remain, want %d", algorithm, after, before)
		}
		if stats := c.Stats(); c.HasUnreported() || stats.Unreported != 0 || stats.Held != 0 {
			t.Errorf("%s: after a refund of all units: %+v, and HasUnreported is %v", algorithm, stats, c.HasUnreported())
		}
	}
}

// A replica assumes that the other replicas spend as much as it does, but it reports only the units that it spent itself.
func TestTakeUnreported_ReturnsTheUnitsThatWereSpentHereAndStillCount(t *testing.T) {
	clock := newClock()
	store, c := memstore.New(clock.Now), local.New(plenty, clock.Now)
	c.Share(local.Peers{Replicas: 3, Rank: 1})
	l := limit(t, limiter.FixedWindow, 100, time.Minute)
	learn(t, store, c, one("key", l, 40))
	if c.HasUnreported() {
		t.Fatal("there are unreported units before any were spent locally")
	}
	for range 7 {
		c.Spend(one("key", l, 1))
	}
	if !c.HasUnreported() || len(c.UnreportedKeys(10)) != 1 || c.UnreportedKeys(10)[0] != "key" || len(c.UnreportedKeys(0)) != 0 {
		t.Fatalf("HasUnreported %v, UnreportedKeys %v", c.HasUnreported(), c.UnreportedKeys(10))
	}
	charge, has := c.TakeUnreported("key")
	if !has || charge.Cost != 7 || charge.Key != "key" || charge.Limit != l {
		t.Fatalf("took %+v, want 7 units", charge)
	}
	if _, again := c.TakeUnreported("key"); again || c.HasUnreported() {
		t.Error("the same units were taken twice")
	}
	c.ReturnUnreported(charge)
	if !c.HasUnreported() {
		t.Error("the units are not unreported after they were returned")
	}
	c.Spend(one("key", l, 2))
	if charge, _ = c.TakeUnreported("key"); charge.Cost != 9 {
		t.Errorf("took %d units after 2 more, want 9", charge.Cost)
	}
	c.ReturnUnreported(charge)
	clock.pass(time.Minute)
	if charge, has = c.TakeUnreported("key"); has || c.HasUnreported() || c.Stats().Held != 0 {
		t.Errorf("at the end of the window: took %+v, and have %+v", charge, c.Stats())
	}
}

// Units that the store has not counted are lost if their counter was evicted in the meantime.
func TestReturnUnreported_CountsTheUnitsOfUnknownCountersAsLost(t *testing.T) {
	c := local.New(plenty, newClock().Now)
	l := limit(t, limiter.FixedWindow, 100, time.Minute)
	for _, cost := range []int64{3, 4} {
		c.ReturnUnreported(local.Report{Charge: limiter.Charge{Key: "unknown", Limit: l, Cost: cost}})
	}
	if stats := c.Stats(); stats.Lost != 7 || c.HasUnreported() {
		t.Errorf("%+v, want 7 lost units and nothing unreported", stats)
	}
}

func TestLearn_ReplacesTheEstimateByWhatTheStoreDecided(t *testing.T) {
	clock := newClock()
	store, c := memstore.New(clock.Now), local.New(plenty, clock.Now)
	l := limit(t, limiter.SlidingWindowCounter, 100, time.Minute)
	learn(t, store, c, one("key", l, 60))
	if d := c.Peek(one("key", l, 0))[0]; d.Remaining != 40 {
		t.Errorf("%d remain after 60 of 100", d.Remaining)
	}
	if err := store.Reset(t.Context(), []string{"key"}, ""); err != nil {
		t.Fatal(err)
	}
	learn(t, store, c, one("key", l, 1))
	if d := c.Peek(one("key", l, 0))[0]; d.Remaining != 99 {
		t.Errorf("%d remain after a reset and a unit", d.Remaining)
	}
	lower := limit(t, limiter.SlidingWindowCounter, 50, time.Minute)
	learn(t, store, c, one("key", lower, 9))
	if d := c.Peek(one("key", lower, 0))[0]; d.Remaining != 40 {
		t.Errorf("%d remain of a lowered limit", d.Remaining)
	}
}

// After one decision of the store, windows end by the clock of the store.
func TestLearn_AdoptsTheClockOfTheStore(t *testing.T) {
	ours, theirs := newClock(), newClock()
	theirs.pass(30*time.Second - time.Microsecond) // of a minute
	store, c := memstore.New(theirs.Now), local.New(plenty, ours.Now)
	l := limit(t, limiter.FixedWindow, 10, time.Minute)
	learn(t, store, c, one("key", l, 10))
	ours.pass(30 * time.Second)
	if d := c.Peek(one("key", l, 1))[0]; d.Allowed || d.RetryAfter != time.Microsecond {
		t.Errorf("1 µs before the store's window ends: %+v", d)
	}
	ours.pass(time.Microsecond)
	if d := c.Peek(one("key", l, 1))[0]; !d.Allowed {
		t.Errorf("at its end: %+v", d)
	}
}

// Counters of a flood expire, and leave their slots in the map. A spend must not look at them all.
func TestSpend_CostsTheSameAfterAFlood(t *testing.T) {
	const spends = 2000
	clock := newClock()
	calm, flooded := local.New(1<<30, clock.Now), local.New(1<<30, clock.Now)
	l := limit(t, limiter.FixedWindow, 10, time.Second)
	for i := range 100_000 {
		flooded.Spend(one(fmt.Sprintf("flood-%d", i), l, 1))
	}
	timed := func(c *local.Counters) time.Duration {
		began := time.Now()
		for i := range spends {
			c.Spend(one(fmt.Sprintf("client-%d", i), l, 1)) // dropExpired looks at counters when one is new
			if i%2 == 0 {
				clock.pass(time.Second) // so that few counters are held
			}
		}
		return time.Since(began)
	}
	clock.pass(time.Minute)
	for i := 0; flooded.Stats().Held > 10; i++ {
		if i > 1_000_000 {
			t.Fatalf("%d counters are left", flooded.Stats().Held)
		}
		flooded.Spend(one(fmt.Sprintf("sweep-%d", i), l, 1))
		clock.pass(time.Second)
	}
	timed(calm)
	before, after := timed(calm), timed(flooded)
	t.Logf("%d spends: %v without a flood, %v after it", spends, before, after)
	if after > 50*before {
		t.Errorf("%d spends take %v after a flood, and %v without one", spends, after, before)
	}
}
