package proof

import (
	"strings"
	"testing"
	"time"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/test/proof/promise"
)

// A counter is one algorithm under one limit, as the promise has it and as the limiter has it.
type counter struct {
	algorithm limiter.Algorithm
	units     int64
	window    time.Duration
	burst     int64
	promise   promise.Promise
}

// counters has one of each algorithm. delayGrain is what delays are rounded up to.
func counters(units int64, window time.Duration, burst int64, delayGrain time.Duration) []counter {
	us := window.Microseconds()
	return []counter{
		{limiter.FixedWindow, units, window, 0, promise.FixedWindow{Limit: units, Window: us}},
		{limiter.SlidingWindowLog, units, window, 0, promise.SlidingWindowLog{Limit: units, Window: us}},
		{limiter.SlidingWindowCounter, units, window, 0, promise.SlidingWindowCounter{Limit: units, Window: us}},
		{limiter.TokenBucket, units, window, burst, promise.TokenBucket{Limit: units, Window: us, Burst: burst}},
		{limiter.LeakyBucket, units, window, burst, promise.LeakyBucket{Limit: units, Window: us, Burst: burst, Grain: delayGrain.Microseconds()}},
	}
}

func (c counter) String() string { return string(c.algorithm) }

// path is where the counter's policy asks for requests.
func (c counter) path() string { return "/" + strings.ToLower(c.String()) }

func (c counter) limit(t testing.TB) limiter.Limit {
	t.Helper()
	limit, err := limiter.NewLimit(c.algorithm, c.units, c.window)
	if err == nil && c.burst > 0 {
		limit, err = limit.WithBurst(c.burst)
	}
	if err != nil {
		t.Fatal(err)
	}
	return limit
}

// key is the counter of an identifier.
func key(identifier, policy string, limit limiter.Limit) string {
	return limiter.NewKeySpace("weir:", "Tenant", "proof/"+policy, limit).Key(identifier, "")
}

// holds checks a log of requests that came faster than they were let through, and fails the test by what is wrong in it.
//
// How much must have been admitted at the least is derived where each Least is. What it may fall short of the promised
// rate is an edge at the beginning and at the end, as the log does not begin and end with the windows; one in each window
// of a SlidingWindowCounter and between the windows of a SlidingWindowLog, from the last denial on; with requests of n
// units, n − 1 a window; and what the lost requests took, if they were counted, which Counted tells apart.
// steady is how much a log must promise for the test to mean something, in units.
func (c counter) holds(t testing.TB, log promise.Log, steady int64) {
	t.Helper()
	if err := c.promise.Over(log); err != nil {
		t.Errorf("more than promised: %v", err)
	}
	if err := c.promise.Needless(log); err != nil {
		t.Errorf("denied without need: %v", err)
	}
	admitted, most := log.Counted()
	least := c.promise.Least(log)
	t.Logf("%v: %d requests, %d units admitted, at most %d with those lost, at least %d by the denials", c, len(log), admitted, most, least)
	if most < least {
		t.Errorf("%v: %d units counted at the most, at least %d promised", c, most, least)
	}
	if least < steady {
		t.Errorf("%v: the denials promise %d units, want %d: too few came to tell", c, least, steady)
	}
}
