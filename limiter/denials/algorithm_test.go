package denials_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/denials"
)

// For random limits and histories: until a cached denial expires, it equals the decision of the algorithm at that instant, to the
// microsecond, and the algorithm admits nothing.
func TestFind_ReturnsWhatTheAlgorithmDecides(t *testing.T) {
	epoch := limiter.At(noon())
	histories, found := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		histories++
		l := drawLimit(rt)
		state, now := l.NewState(), epoch+limiter.Instant(rapid.Int64Range(0, 20_000_000).Draw(rt, "begin"))
		for range rapid.IntRange(1, 30).Draw(rt, "spends") {
			now += limiter.Instant(rapid.Int64Range(0, 3_000_000).Draw(rt, "wait"))
			if rapid.IntRange(0, 9).Draw(rt, "edit") == 9 {
				l = edit(rt, l)
			}
			if cost := rapid.Int64Range(1, 3).Draw(rt, "cost"); state.Decide(now, l, cost).Allowed {
				state.Spend(now, l, cost)
			}
		}
		for fill := rapid.IntRange(0, 4).Draw(rt, "fill") > 0; fill && state.Decide(now, l, 1).Allowed; {
			state.Spend(now, l, 1)
		}
		cost := rapid.SampledFrom([]int64{1, 1, 2, 4})
		first := charge(l, cost.Draw(rt, "first"))
		d := denials.New(1)
		d.Remember(first, state.Decide(now, l, first.Cost), now.Time(), now.Time())
		// Requests of any cost may follow.
		for range 15 {
			later := now + limiter.Instant(rapid.Int64Range(0, 1_500_000).Draw(rt, "later"))
			one := charge(l, cost.Draw(rt, "then"))
			got, known := d.Find(one, later.Time())
			if !known {
				continue
			}
			found++
			want := state.Decide(later, l, one.Cost)
			if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(limiter.Decision{}, "At", "Origin")); diff != "" {
				rt.Fatalf("%v: %d units %v after %d were denied (-algorithm +cached):\n%s", l, one.Cost, later.Sub(now), first.Cost, diff)
			}
			if state.Decide(later, l, 1).Allowed { // with the delay of the request
				rt.Fatalf("%v: the algorithm admits a unit %v after %d were denied", l, later.Sub(now), first.Cost)
			}
		}
		one := charge(l, 1)
		_, bounded := l.MaxDelay()
		isShared := bounded && l.Capacity() > 1 // with requests that can wait
		if decision := state.Decide(now, l, 1); !isShared && !decision.Allowed && decision.RetryAfter < denials.Life {
			d.Remember(one, decision, now.Time(), now.Time())
			expires := now.Add(decision.RetryAfter)
			if _, known := d.Find(one, (expires - 1).Time()); !known {
				rt.Fatalf("%v: the denial is not known a microsecond before it expires", l)
			}
			if _, known := d.Find(one, expires.Time()); known {
				rt.Fatalf("%v: the denial is still known when it expires", l)
			}
		}
	})
	if found < histories {
		t.Errorf("only %d denials were found in %d histories: this test has proved little", found, histories)
	}
}

func drawLimit(rt *rapid.T) limiter.Limit {
	algorithm := rapid.SampledFrom(limiter.Algorithms()).Draw(rt, "algorithm")
	window := rapid.SampledFrom([]time.Duration{time.Second, 7 * time.Second, time.Minute}).Draw(rt, "window")
	return build(rt, algorithm, rapid.Int64Range(1, 9).Draw(rt, "units"), window, 3)
}

// edit changes the units. A bucket keeps its burst: for a level above a lowered burst no wait is exact, because the wait of the
// algorithm does not decrease while that of a cached denial does.
func edit(rt *rapid.T, l limiter.Limit) limiter.Limit {
	return build(rt, l.Algorithm(), rapid.Int64Range(1, 9).Draw(rt, "units"), l.Window(), l.Burst())
}

func build(rt *rapid.T, algorithm limiter.Algorithm, units int64, window time.Duration, burst int64) limiter.Limit {
	l, err := limiter.NewLimit(algorithm, units, window)
	if err != nil {
		rt.Fatal(err)
	}
	if algorithm == limiter.TokenBucket || algorithm == limiter.LeakyBucket {
		if l, err = l.WithBurst(burst); err != nil {
			rt.Fatal(err)
		}
	}
	if algorithm == limiter.LeakyBucket {
		switch rapid.IntRange(0, 2).Draw(rt, "delay") {
		case 0:
			l = l.NoDelay()
		case 1:
			l = l.WithMaxDelay(time.Duration(rapid.IntRange(1, 5000).Draw(rt, "max delay")) * time.Millisecond)
		}
	}
	return l
}
