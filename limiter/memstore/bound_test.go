package memstore_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/memstore"
)

// hand is a clock that the test sets.
type hand struct{ now time.Time }

func newHand() *hand { return &hand{time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)} }

func (h *hand) Now() time.Time { return h.now }

func limitOf(t testing.TB, algorithm limiter.Algorithm, units int64, window time.Duration) limiter.Limit {
	t.Helper()
	l, err := limiter.NewLimit(algorithm, units, window)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func spend(t testing.TB, s *memstore.Store, key string, l limiter.Limit, cost int64) limiter.Decision {
	t.Helper()
	decisions, err := s.Spend(t.Context(), []limiter.Charge{{Key: key, Limit: l, Cost: cost}})
	if err != nil {
		t.Fatal(err)
	}
	return decisions[0]
}

// Counters of a flood expire, and leave their slots in the map. A spend must not look at them all.
func TestSpend_CostsTheSameAfterAFlood(t *testing.T) {
	const flood, spends = 300_000, 64 * 100
	l := limitOf(t, limiter.FixedWindow, 10, time.Minute)
	timed := func(s *memstore.Store) time.Duration {
		began := time.Now()
		for i := range spends {
			spend(t, s, fmt.Sprintf("client-%d", i%10), l, 1)
		}
		return time.Since(began)
	}
	clock := newHand()
	calm, flooded := memstore.New(clock.Now), memstore.New(clock.Now)
	for i := range flood {
		spend(t, flooded, fmt.Sprintf("flood-%d", i), l, 1)
	}
	clock.now = clock.now.Add(time.Hour)
	for i := 0; flooded.Len() > 10; i++ {
		if i > flood {
			t.Fatalf("%d counters are left", flooded.Len())
		}
		spend(t, flooded, fmt.Sprintf("client-%d", i%10), l, 1)
	}
	timed(calm)
	before, after := timed(calm), timed(flooded)
	t.Logf("%d spends: %v without a flood, %v after it", spends, before, after)
	if after > 50*before {
		t.Errorf("%d spends take %v after a flood, and %v without one", spends, after, before)
	}
}

func TestSpend_KeepsWithinItsMemory(t *testing.T) {
	const most = 4 << 20
	for _, algorithm := range []limiter.Algorithm{limiter.FixedWindow, limiter.SlidingWindowLog, limiter.TokenBucket} {
		l := limitOf(t, algorithm, 100, 24*time.Hour)
		clock := newHand()
		before := heap()
		s := memstore.New(clock.Now, memstore.MaxBytes(most))
		for i := range 100_000 {
			clock.now = clock.now.Add(time.Millisecond)
			spend(t, s, fmt.Sprintf("client-%d", i), l, 1)
			if stats := s.Stats(); stats.Bytes > most {
				t.Fatalf("%s: %d bytes after %d clients", algorithm, stats.Bytes, i)
			}
		}
		stats := s.Stats()
		if stats.Evicted != int64(100_000-stats.Counters) || stats.Counters < 10_000 || stats.Counters != s.Len() {
			t.Errorf("%s: %+v", algorithm, stats)
		}
		if used := heap() - before; used > most*5/4 {
			t.Errorf("%s: %d counters take %d bytes, want at most about %d", algorithm, stats.Counters, used, most)
		}
		runtime.KeepAlive(s)
	}
}

// heap returns the bytes of reachable objects.
func heap() int64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// One counter can be larger than the memory, because a log stores each instant.
func TestSpend_KeepsTheCounterOfTheRequest(t *testing.T) {
	clock := newHand()
	s := memstore.New(clock.Now, memstore.MaxBytes(1))
	l := limitOf(t, limiter.SlidingWindowLog, 10, time.Hour)
	for want := int64(9); want >= 0; want-- {
		clock.now = clock.now.Add(time.Second)
		if d := spend(t, s, "client", l, 1); d.Remaining != want {
			t.Fatalf("%d units remain, want %d", d.Remaining, want)
		}
	}
	spend(t, s, "other", l, 1)
	if s.Len() != 1 {
		t.Errorf("%d counters, want the last", s.Len())
	}
}

// A flood of identifiers with one request each does not free a client that is over its limit.
func TestSpend_EvictsTheCountersThatAreUsedLeast(t *testing.T) {
	clock := newHand()
	s := memstore.New(clock.Now, memstore.MaxBytes(1<<20))
	l := limitOf(t, limiter.TokenBucket, 10, time.Hour)
	for i := range 10 {
		spend(t, s, fmt.Sprintf("offender-%d", i), l, 10)
	}
	for i := range 50_000 {
		spend(t, s, fmt.Sprintf("flood-%d", i), l, 1)
	}
	for i := range 10 {
		if d := spend(t, s, fmt.Sprintf("offender-%d", i), l, 1); d.Allowed {
			t.Errorf("offender %d is admitted", i)
		}
	}
}

func TestReset_FreesMemory(t *testing.T) {
	s := memstore.New(newHand().Now)
	l := limitOf(t, limiter.TokenBucket, 10, time.Hour)
	for _, key := range []string{"a", "b", "c"} {
		spend(t, s, key, l, 1)
	}
	if err := s.Reset(t.Context(), []string{"a", "unknown", "c"}, ""); err != nil {
		t.Fatal(err)
	}
	if d := spend(t, s, "b", l, 1); s.Len() != 1 || d.Remaining != 8 {
		t.Errorf("%d counters, %+v; want that of b", s.Len(), d)
	}
	if err := s.Reset(t.Context(), []string{"b"}, ""); err != nil || s.Stats() != (memstore.Stats{}) {
		t.Errorf("%+v, %v; want no counters", s.Stats(), err)
	}
}
