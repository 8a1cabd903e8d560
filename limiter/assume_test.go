package limiter_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-dev/weir/limiter"
)

var noon = limiter.At(time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC))

// usedOf is the number of units that count now.
func usedOf(state limiter.State, limit limiter.Limit, now limiter.Instant) int64 {
	return capacityOf(limit) - state.Decide(now, limit, 0).Remaining
}

func TestAssume_SetsTheUnitsThatCount(t *testing.T) {
	for _, algorithm := range limiter.Algorithms() {
		t.Run(string(algorithm), func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				limit := drawLimit(rt, algorithm)
				state := limit.NewCoarseState()
				now := noon
				for range rapid.IntRange(1, 20).Draw(rt, "steps") {
					now += limiter.Instant(rapid.Int64Range(0, limit.Window().Microseconds()).Draw(rt, "wait"))
					if rapid.Bool().Draw(rt, "assume") {
						used := rapid.Int64Range(0, capacityOf(limit)).Draw(rt, "used")
						state.Assume(now, limit, used, now)
						if got := usedOf(state, limit, now); got != used {
							rt.Fatalf("%d units count, want the %d that were assumed", got, used)
						}
						continue
					}
					if cost := rapid.Int64Range(1, capacityOf(limit)).Draw(rt, "cost"); state.Decide(now, limit, cost).Allowed {
						state.Spend(now, limit, cost)
					}
				}
				if later := state.Expires(limit); usedOf(state, limit, max(now, later)) != 0 {
					rt.Fatalf("units count when the state has expired")
				}
			})
		})
	}
}

// When the assumed units equal those that count, later decisions do not change.
func TestAssume_OfTheSameUnitsChangesNothing(t *testing.T) {
	for _, algorithm := range limiter.Algorithms() {
		t.Run(string(algorithm), func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				limit := drawLimit(rt, algorithm)
				state, now := limit.NewState(), noon
				for range rapid.IntRange(1, 8).Draw(rt, "spends") {
					now += limiter.Instant(rapid.Int64Range(0, limit.Window().Microseconds()/2).Draw(rt, "wait"))
					if cost := rapid.Int64Range(1, capacityOf(limit)).Draw(rt, "cost"); state.Decide(now, limit, cost).Allowed {
						state.Spend(now, limit, cost)
					}
				}
				assumed := state.Clone()
				assumed.Assume(now, limit, usedOf(state, limit, now), now)
				for range 5 {
					now += limiter.Instant(rapid.Int64Range(0, limit.Window().Microseconds()/2).Draw(rt, "wait"))
					cost := rapid.Int64Range(0, capacityOf(limit)).Draw(rt, "cost")
					if a, b := state.Decide(now, limit, cost), assumed.Decide(now, limit, cost); a != b {
						rt.Fatalf("decision %+v changed to %+v", a, b)
					}
				}
			})
		})
	}
}

// The decisions of a log contain the time of its last unit.
func TestAssume_KeepsTheTimeOfTheLastUnitOfALog(t *testing.T) {
	limit := mustLimit(t, limiter.SlidingWindowLog, 10, time.Minute)
	state := limit.NewCoarseState()
	state.Assume(noon.Add(50*time.Second), limit, 10, noon)
	if d := state.Decide(noon.Add(50*time.Second), limit, 1); d.Allowed || d.RetryAfter != 10*time.Second {
		t.Errorf("50 s after the last unit was spent: %+v", d)
	}
}

func TestClone_IsIndependent(t *testing.T) {
	for _, algorithm := range limiter.Algorithms() {
		t.Run(string(algorithm), func(t *testing.T) {
			limit := mustLimit(t, algorithm, 100, time.Minute)
			if algorithm == limiter.LeakyBucket {
				var err error
				if limit, err = limit.WithBurst(99); err != nil {
					t.Fatal(err)
				}
			}
			state := limit.NewState()
			state.Spend(noon, limit, 10)
			clone := state.Clone()
			state.Spend(noon, limit, 20)
			clone.Spend(noon+1, limit, 1)
			if a, b := usedOf(state, limit, noon+1), usedOf(clone, limit, noon+1); a != 30 || b != 11 {
				t.Errorf("%d and %d units count, want 30 and 11", a, b)
			}
		})
	}
}

// A coarse log admits only what an exact log admits. It denies only what is also denied by an exact log whose window is a 64th longer.
func TestNewCoarseState_NeverAdmitsMoreAndHardlyLess(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		limit := mustLimit(t, limiter.SlidingWindowLog, rapid.Int64Range(1, 200).Draw(rt, "limit"), 64*time.Second)
		longer := mustLimit(t, limiter.SlidingWindowLog, limit.Units(), 65*time.Second)
		coarse, exact, late := limit.NewCoarseState(), limit.NewState(), longer.NewState()
		now := noon
		for range rapid.IntRange(1, 300).Draw(rt, "requests") {
			now += limiter.Instant(rapid.Int64Range(0, 2_000_000).Draw(rt, "wait"))
			cost := rapid.Int64Range(1, min(limit.Units(), 3)).Draw(rt, "cost")
			switch allowed := coarse.Decide(now, limit, cost).Allowed; {
			case allowed && !exact.Decide(now, limit, cost).Allowed:
				rt.Fatal("admitted over the limit")
			case !allowed && late.Decide(now, longer, cost).Allowed:
				rt.Fatal("denied, although a log with a window that is a 64th longer admits")
			case allowed:
				coarse.Spend(now, limit, cost)
				exact.Spend(now, limit, cost)
				late.Spend(now, longer, cost)
			}
			if coarse.Size() > 4096 {
				rt.Fatalf("the state takes %d bytes, want at most 4096", coarse.Size())
			}
		}
	})
}

func TestNewCoarseState_MergesInstantsWithinA64thOfTheWindow(t *testing.T) {
	limit := mustLimit(t, limiter.SlidingWindowLog, 2, 64*time.Second)
	for apart, until := range map[time.Duration]time.Duration{
		time.Second:                    65 * time.Second, // both units count as spent at the second instant
		time.Second + time.Microsecond: 64 * time.Second,
	} {
		state := limit.NewCoarseState()
		state.Spend(noon, limit, 1)
		state.Spend(noon.Add(apart), limit, 1)
		before, after := state.Decide(noon.Add(until)-1, limit, 1), state.Decide(noon.Add(until), limit, 1)
		if before.Allowed || !after.Allowed {
			t.Errorf("units spent %v apart: allowed %t just before %v, and %t then", apart, before.Allowed, until, after.Allowed)
		}
	}
}

// A log is as large as the number of instants in its window, however long it is used.
func TestSize_IsBoundedByTheWindow(t *testing.T) {
	limit := mustLimit(t, limiter.SlidingWindowLog, 100, time.Minute)
	for name, state := range map[string]limiter.State{"exact": limit.NewState(), "coarse": limit.NewCoarseState()} {
		now := noon
		for range 5000 {
			state.Spend(now, limit, 1)
			now = now.Add(2 * time.Second)
		}
		if used := usedOf(state, limit, now); used < 29 || used > 30 {
			t.Fatalf("%s: %d units count", name, used)
		}
		if state.Size() < 30*24 || state.Size() > 4*30*24 {
			t.Errorf("%s: %d bytes for 30 instants of 24 bytes", name, state.Size())
		}
	}
	for _, algorithm := range limiter.Algorithms() {
		if size := mustLimit(t, algorithm, 100, time.Minute).NewState().Size(); size < 16 || size > 64 {
			t.Errorf("%s: a new state takes %d bytes", algorithm, size)
		}
	}
}
