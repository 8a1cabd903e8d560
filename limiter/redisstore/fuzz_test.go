package redisstore_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/redisstore"
	"github.com/weir-dev/weir/limiter/storetest"
	"github.com/weir-dev/weir/test/fixture"
)

// FuzzScripts runs the scripts with any limits, costs and times: they must decide like the algorithms in Go, and never
// fail.
func FuzzScripts(f *testing.F) {
	const lowest, highest = int64(time.Second / time.Microsecond), int64(limiter.MaxWindow / time.Microsecond)
	for algorithm := range everyAlgorithm() {
		for _, units := range []int64{1, 2, 256, 257, limiter.MaxLogUnits, limiter.MaxUnits} {
			for _, window := range []int64{lowest, highest} {
				f.Add(uint8(algorithm), units, window, int64(1), int64(1), int64(0), int64(1))
				f.Add(uint8(algorithm), units, window, units, units, window-1, units)
				f.Add(uint8(algorithm), units, window, units+1, int64(-1), int64(-1), int64(-1))
				f.Add(uint8(algorithm), units, window, int64(math.MaxInt64), int64(math.MinInt64), window/2, int64(math.MaxInt64))
				f.Add(uint8(algorithm), units, window, int64(1<<53), int64(0), 2*window, int64(1<<53))
			}
		}
	}
	url, number := fixture.Redis(f).URL(), 0
	f.Fuzz(func(t *testing.T, which uint8, units, window, first, second, pause, back int64) {
		algorithm := everyAlgorithm()[int(which)%len(everyAlgorithm())]
		limit, err := limiter.NewLimit(algorithm, units, time.Duration(window)*time.Microsecond)
		if err != nil || window > highest { // overflowed
			return
		}
		number++
		clock := &storetest.Clock{}
		now := storetest.Epoch().Add(limiter.MaxWindow)
		store := redisstore.NewStore(open(t, url), longTimeout, redisstore.WithClock(clock.Now))
		key := limiter.NewKeySpace("weir:", "User", fmt.Sprintf("fuzz/%d", number), limit).Key("acme", "")
		state := limit.NewState()
		spend := func(cost int64) limiter.Decision {
			clock.Set(now)
			charges := []limiter.Charge{{Key: key, Limit: limit, Cost: cost}}
			got, err := store.Spend(t.Context(), charges)
			if err != nil {
				t.Fatalf("spend %d at %d: %v", cost, now, err)
			}
			want := limiter.Spend(now, charges, []limiter.State{state})
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("spend %d at %d under %v (-Go +script):\n%s", cost, now, limit, diff)
			}
			return got[0]
		}
		spent := spend(first)
		now += limiter.Instant(pause % (2 * highest))
		now = max(now, storetest.Epoch())
		spend(second)
		clock.Set(now)
		refund := limiter.Refund{Key: key, Limit: limit, Cost: back, At: spent.At}
		if err := store.Refund(t.Context(), []limiter.Refund{refund}); err != nil {
			t.Fatalf("refund %+v at %d: %v", refund, now, err)
		}
		if back := refund.Units(); back > 0 {
			state.Refund(now, limit, back, spent.At)
		}
		spend(first)
	})
}
