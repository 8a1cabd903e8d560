package proof

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/test/proof/promise"
)

// A counter is an algorithm with a limit, for the limiter and as a promise.
type counter struct {
	algorithm limiter.Algorithm
	units     int64
	window    time.Duration
	burst     int64
	promise   promise.Promise
	lease     string // of the policy in YAML; "": no leases
	// fromLeases counts the requests that were admitted from memory.
	fromLeases *atomic.Int64
	isCompact  bool // storage: Compact
}

// counters returns one counter for each algorithm. delayGrain is the unit to which delays are rounded up.
func counters(units int64, window time.Duration, burst int64, delayGrain time.Duration) []counter {
	us := window.Microseconds()
	return []counter{
		{limiter.FixedWindow, units, window, 0, promise.FixedWindow{Limit: units, Window: us}, "", nil, false},
		{limiter.SlidingWindowLog, units, window, 0, promise.SlidingWindowLog{Limit: units, Window: us}, "", nil, false},
		{limiter.SlidingWindowCounter, units, window, 0, promise.SlidingWindowCounter{Limit: units, Window: us}, "", nil, false},
		{limiter.TokenBucket, units, window, burst, promise.TokenBucket{Limit: units, Window: us, Burst: burst}, "", nil, false},
		{limiter.LeakyBucket, units, window, burst, promise.LeakyBucket{Limit: units, Window: us, Burst: burst, Grain: delayGrain.Microseconds()}, "", nil, false},
	}
}

// withCompact appends a compact counter with the same promise for each counter that can be one.
func withCompact(all []counter) []counter {
	for _, c := range all {
		if c.isCompact = c.algorithm.HasCompact(); c.isCompact {
			all = append(all, c)
		}
	}
	return all
}

// String returns a name of the counter and of its policy.
func (c counter) String() string {
	if c.isCompact {
		return "Compact" + string(c.algorithm)
	}
	return string(c.algorithm)
}

// path is the path that the policy of the counter matches.
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

// charge returns a charge of no units on the counter of an identifier.
func (c counter) charge(t testing.TB, identifier, policy string) limiter.Charge {
	limit := c.limit(t)
	keys := limiter.NewKeySpace("weir:", "Tenant", "proof/"+policy, limit)
	if c.isCompact {
		hashKey, err := limiter.NewHashKey([]byte(hashKey))
		if err != nil {
			t.Fatal(err)
		}
		keys = keys.Compact(hashKey)
	}
	return limiter.Charge{Key: keys.Key(identifier, ""), Limit: limit}
}

// hashKey is the key with which compact counters hash identifiers.
const hashKey = "0123456789abcdef0123456789abcdef"

// key returns the key of the counter of an identifier.
func key(identifier, policy string, limit limiter.Limit) string {
	return limiter.NewKeySpace("weir:", "Tenant", "proof/"+policy, limit).Key(identifier, "")
}

// checkLog checks a log with more requests than were admitted, and reports what is wrong in it.
//
// Each MinCounted explains its bound. The bound can be below the promised rate by: an incomplete window at the beginning and
// at the end of the log; the time after the last denial in each window of a SlidingWindowCounter, and between the windows of
// a SlidingWindowLog; with requests of n units, n − 1 units per window; and the units of lost requests that were counted.
// steady is the bound, in units, that the denials of the log must at least imply. Otherwise the test shows nothing.
func (c counter) checkLog(t testing.TB, log promise.Log, steady int64) {
	t.Helper()
	if err := c.promise.CheckAdmitted(log); err != nil {
		t.Errorf("more than promised: %v", err)
	}
	if err := c.promise.CheckDenied(log); err != nil {
		t.Errorf("denied although the limit was not reached: %v", err)
	}
	admitted, most := log.Counted()
	least := c.promise.MinCounted(log)
	t.Logf("%v: %d requests, %d units admitted, at most %d including lost ones, at least %d because of the denials", c, len(log), admitted, most, least)
	if most < least {
		t.Errorf("%v: at most %d units counted, want at least %d", c, most, least)
	}
	if least < steady {
		t.Errorf("%v: the denials imply %d units, want %d: there were too few requests", c, least, steady)
	}
}
