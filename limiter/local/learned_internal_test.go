package local

import (
	"testing"
	"time"

	"github.com/weir-dev/weir/limiter"
)

func fixedLimit(t *testing.T) limiter.Limit {
	t.Helper()
	l, err := limiter.NewLimit(limiter.FixedWindow, 100, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func usedOf(l *learned, hash uint64, at limiter.Instant, limit limiter.Limit) int64 {
	state, known := l.state(hash, limit)
	if !known {
		return 0
	}
	return limit.Capacity() - state.Decide(at, limit, 0).Remaining
}

// A shard of 16 slots is full: the counter with the fewest units makes room.
func TestLearned_EvictsTheSmallestPart(t *testing.T) {
	limit, at := fixedLimit(t), limiter.At(time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC))
	evicted := newSketch(1 << 10)
	l := newLearned(0, evicted)
	for hash := uint64(1); hash <= 16; hash++ {
		l.learn(hash, at, limit, &limiter.Decision{At: at, Remaining: 80 - hash7(hash)}, false)
	}
	l.learn(17, at, limit, &limiter.Decision{At: at, Remaining: 1}, false)
	if l.len() != 16 || evicted.count() != 1 {
		t.Fatalf("%d counters, %d evicted, want 16 and 1", l.len(), evicted.count())
	}
	for hash := uint64(1); hash <= 17; hash++ {
		want := 20 + hash7(hash)
		switch hash {
		case 5: // 7·5 = 35 has the remainder 0
			want = 0
		case 17:
			want = 99
		}
		if got := usedOf(l, hash, at, limit); got != want {
			t.Errorf("counter %d: %d units, want %d", hash, got, want)
		}
	}
}

// hash7 is a different number for each hash from 1 to 16, the smallest for 5.
func hash7(hash uint64) int64 { return int64((hash*7 - 35 + 17*7) % 17) }

func TestLearned_PutReplacesACounter(t *testing.T) {
	limit, at := fixedLimit(t), limiter.At(time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC))
	l := newLearned(1<<20, newSketch(1<<10))
	for _, used := range []int64{30, 40, 20} { // the first one is absent
		state := limit.NewState()
		state.Assume(at, limit, used, at)
		l.put(7, at, at, limit, state)
		if got := usedOf(l, 7, at, limit); got != used || l.len() != 1 {
			t.Errorf("%d units in %d counters, want %d in 1", got, l.len(), used)
		}
	}
}

// While no units are spent here, decisions are learned without the lock of the Counters.
func TestCounters_AllowLearningAfterEachOperation(t *testing.T) {
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	c := New(1<<20, func() time.Time { return now })
	c.lock()
	if c.learned.spending.Load() == 0 {
		t.Error("learning is allowed with the lock")
	}
	c.unlock()
	limit := fixedLimit(t)
	c.learnLocked(&limiter.Charge{Key: "key", Limit: limit, Cost: 1}, &limiter.Decision{At: limiter.At(now), Allowed: true, Remaining: 99}, limiter.At(now))
	if got := c.learned.spending.Load(); got != 0 {
		t.Errorf("learning needs the lock after the operation: %d", got)
	}
}

// The clock of the store was two days ahead. What was evicted since then counts for no longer than a window.
func TestLearned_AnEvictedCounterDoesNotOutlastItsWindow(t *testing.T) {
	limit, own := fixedLimit(t), limiter.At(time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC))
	evicted := newSketch(1 << 10)
	l := newLearned(0, evicted)
	at := own.Add(48 * time.Hour)
	for hash := uint64(1); hash <= 17; hash++ {
		l.learn(hash, own, limit, &limiter.Decision{At: at, Remaining: 80 - hash7(hash)}, false)
	}
	if evicted.count() != 1 {
		t.Fatalf("%d counters were evicted, want 1", evicted.count())
	}
	if part := evicted.estimate(5, own.Add(time.Hour-time.Second)); part == 0 {
		t.Error("the units of the evicted counter do not count until its window ends")
	}
	if part := evicted.estimate(5, own.Add(time.Hour)); part != 0 {
		t.Errorf("a part of %d counts after the window", part)
	}
}
