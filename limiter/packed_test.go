package limiter_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-dev/weir/limiter"
)

// A packed state learns decisions exactly as the state does, whatever the limit is meanwhile.
func TestPacked_LearnsAsTheState(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, algorithm := range limiter.AlgorithmsWith(func(of *limiter.Traits) bool { return !of.Log }) {
		for range 200 {
			limits := make([]limiter.Limit, 2)
			for i := range limits {
				limits[i] = mustLimit(t, algorithm, 1+random.Int64N(100), time.Minute)
				if algorithm == limiter.LeakyBucket {
					limits[i], _ = limits[i].WithBurst(20)
				}
			}
			now := limiter.At(time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC))
			var packed limiter.Packed
			state, reused := limits[0].NewState(), limits[0].NewState()
			for step := range 30 {
				now += limiter.Instant(random.Int64N(30_000_000)) - 1_000_000 // sometimes backwards
				limit := limits[random.IntN(2)]
				used := random.Int64N(limit.Capacity() + 1)
				state.Assume(now, limit, used, now)
				next, expires := packed.Assume(now, limit, used)
				packed = next
				if want := state.Expires(limit); expires != want {
					t.Fatalf("%v, step %d: expires at %d, want %d", limit, step, expires, want)
				}
				got, want := packed.Unpack(limit).Decide(now, limit, 1), state.Decide(now, limit, 1)
				if got != want {
					t.Fatalf("%v, step %d: %+v, want %+v", limit, step, got, want)
				}
				if reused = packed.UnpackInto(reused); reused.Decide(now, limit, 1) != want {
					t.Fatalf("%v, step %d: another decision of a state that was unpacked before", limit, step)
				}
				if again := limiter.Pack(packed.Unpack(limit)); again != packed {
					t.Fatalf("%v, step %d: %v after it was unpacked and packed, want %v", limit, step, again, packed)
				}
			}
		}
	}
}

func TestPacked_HasNoLogs(t *testing.T) {
	limit := mustLimit(t, limiter.SlidingWindowLog, 10, time.Minute)
	if limit.Packs() {
		t.Error("a log packs")
	}
	for name, use := range map[string]func(){
		"Pack":       func() { limiter.Pack(limit.NewState()) },
		"Unpack":     func() { limiter.Packed{}.Unpack(limit) },
		"UnpackInto": func() { limiter.Packed{}.UnpackInto(limit.NewState()) },
		"Assume":     func() { limiter.Packed{}.Assume(0, limit, 1) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("a log was accepted")
				}
			}()
			use()
		})
	}
}
