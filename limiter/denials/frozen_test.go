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

// Whatever has been spent under whatever limits: until a remembered denial is over, it says what the algorithm itself
// says at that moment, to the microsecond, and nothing at all passes.
func TestWhatIsRememberedIsWhatTheAlgorithmWouldSay(t *testing.T) {
	epoch := limiter.At(noon())
	histories, remembered := 0, 0
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
		asked := charge(l, cost.Draw(rt, "asked"))
		d := denials.New(1)
		d.Remember(asked, state.Decide(now, l, asked.Cost), now.Time(), now.Time())
		// Anything may come meanwhile.
		for range 15 {
			later := now + limiter.Instant(rapid.Int64Range(0, 1_500_000).Draw(rt, "later"))
			one := charge(l, cost.Draw(rt, "then"))
			got, known := d.Find(one, later.Time())
			if !known {
				continue
			}
			remembered++
			want := state.Decide(later, l, one.Cost)
			if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(limiter.Decision{}, "At")); diff != "" {
				rt.Fatalf("%v: %d units %v after %d were denied (-algorithm +remembered):\n%s", l, one.Cost, later.Sub(now), asked.Cost, diff)
			}
			if state.Decide(later, l, 1).Allowed {
				rt.Fatalf("%v: a unit passes %v after %d were denied", l, later.Sub(now), asked.Cost)
			}
		}
		one := charge(l, 1)
		if decision := state.Decide(now, l, 1); !decision.Allowed && decision.RetryAfter < denials.Life {
			d.Remember(one, decision, now.Time(), now.Time())
			moment := now.Add(decision.RetryAfter)
			if _, known := d.Find(one, (moment - 1).Time()); !known {
				rt.Fatalf("%v: a microsecond before its end it is not known any more", l)
			}
			if _, known := d.Find(one, moment.Time()); known {
				rt.Fatalf("%v: it is still known when its end has come", l)
			}
		}
	})
	if remembered < histories {
		t.Errorf("only %d denials were remembered in %d histories: this has shown little", remembered, histories)
	}
}

func drawLimit(rt *rapid.T) limiter.Limit {
	algorithm := rapid.SampledFrom([]limiter.Algorithm{
		limiter.FixedWindow, limiter.SlidingWindowLog, limiter.SlidingWindowCounter, limiter.TokenBucket, limiter.LeakyBucket,
	}).Draw(rt, "algorithm")
	window := rapid.SampledFrom([]time.Duration{time.Second, 7 * time.Second, time.Minute}).Draw(rt, "window")
	return build(rt, algorithm, rapid.Int64Range(1, 9).Draw(rt, "units"), window, 3)
}

// edit changes the units. A bucket keeps its burst: to what lies above a lowered one no wait that is told is exact, and a
// remembered one falls while the algorithm's own stands still.
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
	return l
}
