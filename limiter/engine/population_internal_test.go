package engine

import (
	"hash/maphash"
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/memstore"
)

func TestEstimate_IsWithinFivePercentOfTheDistinctHashes(t *testing.T) {
	for _, n := range []int{0, 1, 10, 100, 1000, 2500, 10_000, 100_000, 2_000_000} {
		worst, sum := 0.0, 0.0
		const rounds = 5
		for range rounds {
			seed, a, b := maphash.MakeSeed(), &sketch{}, &sketch{}
			for i := range n {
				hash := maphash.String(seed, strconv.Itoa(i))
				switch i % 3 {
				case 0:
					a.add(hash)
					b.add(hash)
				case 1:
					a.add(hash)
				default:
					b.add(hash)
				}
			}
			deviation := math.Abs(estimate(a, b)-float64(n)) / math.Max(float64(n), 1)
			worst, sum = math.Max(worst, deviation), sum+deviation
		}
		if worst > 0.15 || sum/rounds > 0.06 {
			t.Errorf("%d hashes: off by %.1f %% on average and %.1f %% at most", n, 100*sum/rounds, 100*worst)
		}
	}
}

func TestLifetime_IsTheTimeToLiveOfAFullCounter(t *testing.T) {
	windowBegins := time.Unix(0, 0).Add(1000 * time.Hour)
	for _, algorithm := range []limiter.Algorithm{
		limiter.FixedWindow, limiter.SlidingWindowLog, limiter.SlidingWindowCounter, limiter.TokenBucket, limiter.LeakyBucket,
	} {
		limit, err := limiter.NewLimit(algorithm, 10, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		if bursting, err := limit.WithBurst(50); err == nil {
			limit = bursting
		}
		store := memstore.New(func() time.Time { return windowBegins })
		charge := limiter.Charge{Key: "k", Limit: limit, Cost: limit.Capacity()}
		decisions, err := store.Spend(t.Context(), []limiter.Charge{charge})
		if err != nil {
			t.Fatal(err)
		}
		if got, want := lifetime(limit), decisions[0].ResetAfter; got != want {
			t.Errorf("%s: %v, want %v", algorithm, got, want)
		}
	}
}

func TestOverrideClass_LastsAtLeastAsLongAsTheCounters(t *testing.T) {
	for window, want := range map[time.Duration]int{
		time.Second: 0, 2 * time.Second: 1, 3 * time.Second: 2, time.Minute: 6, limiter.MaxWindow: 22,
	} {
		limit, err := limiter.NewLimit(limiter.FixedWindow, 1, window)
		if err != nil {
			t.Fatal(err)
		}
		if got := overrideClass(limit); got != want {
			t.Errorf("%v: class %d, want %d", window, got, want)
		}
	}
	longest, err := limiter.NewLimit(limiter.SlidingWindowCounter, 1, limiter.MaxWindow)
	if err != nil {
		t.Fatal(err)
	}
	if got := overrideClass(longest); got != overrideClasses-1 {
		t.Errorf("the longest lifetime has class %d, want the last one, %d", got, overrideClasses-1)
	}
}
