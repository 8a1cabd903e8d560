package reliability

import (
	"fmt"
	"math"
	"time"

	"github.com/weir-dev/weir/limiter"
)

// Expectation bounds the effects of a fault on clients.
type Expectation struct {
	// Failed is the largest number of failed requests.
	Failed int
	// P99 bounds the 99th percentile of the latency during the fault, after the detection period, minus that before the fault. It is about
	// 5 ms on a dedicated machine; a busy machine takes longer.
	P99 time.Duration
	// Recovery bounds that of Result.
	Recovery time.Duration
	// Given is the smallest share of their limits that the hot tenants are admitted.
	Given float64
}

// usual is the expectation of most faults.
func usual() Expectation {
	return Expectation{Failed: 0, P99: 25 * time.Millisecond, Recovery: 2 * time.Second, Given: 0.6}
}

// allowance is the number of units that p's hot tenant may be admitted in a window beyond the limit: the bound that
// docs/concepts/local-mode.md derives, for every outage that the window overlaps, plus the limit if Redis lost its counters.
func allowance(p Policy, t *Trial) int64 {
	const (
		undecided = 50 * time.Millisecond  // --redis-timeout: a replica detects an outage within this time
		stagger   = 500 * time.Millisecond // between the first and the last replica that detects the recovery
	)
	unknown := t.HotPerSecond * undecided.Seconds()
	units := 2*unknown + float64(t.Limiters-1)
	switch p.Algorithm {
	case limiter.SlidingWindowLog:
		units += float64(p.Limit) / 64
	case limiter.TokenBucket, limiter.LeakyBucket:
		units += float64(p.Limit) * stagger.Seconds() / p.Window.Seconds()
	case limiter.FixedWindow, limiter.SlidingWindowCounter:
	}
	all := int64(math.Ceil(units)) * t.overlapping(p.Window)
	if t.Forgets {
		all += p.Limit
	}
	return all
}

// overlapping is the number of outages that a window overlaps if they are evenly distributed.
func (t *Trial) overlapping(window time.Duration) int64 {
	if t.Outages < 2 {
		return 1
	}
	every := float64(t.Repaired-t.Broken) / float64(t.Outages)
	return 1 + int64(float64(window.Microseconds())/every)
}

// Shortfalls describes where r is worse than expected.
func (r *Result) Shortfalls(want Expectation) []string {
	var all []string
	add := func(format string, args ...any) { all = append(all, r.Fault+": "+fmt.Sprintf(format, args...)) }
	if !r.Healthy {
		add("the limiters did not work correctly before the fault")
	}
	if r.Requests == 0 {
		add("no requests were sent")
	}
	if r.Failed() > want.Failed {
		add("%d of %d requests failed, want at most %d: %v", r.Failed(), r.Requests, want.Failed, r.Failures)
	}
	if r.P99 > r.Calm+want.P99 {
		add("p99 latency is %v, want at most %v more than the %v before the fault", r.P99, want.P99, r.Calm)
	}
	if r.Given < want.Given {
		add("hot tenants were admitted %.2f of their limits, want at least %.2f", r.Given, want.Given)
	}
	switch {
	case !r.Recovered:
		add("not all limiters decide with Redis again; the last answer without Redis arrived %v after the repair", r.Recovery)
	case r.Recovery > want.Recovery:
		add("limiters decided with Redis again after %v, want at most %v", r.Recovery, want.Recovery)
	}
	for _, o := range r.Overs {
		if o.Units > o.Allowed {
			add("%s with limit %d admitted %d units too many, want at most %d", o.Policy.Algorithm, o.Policy.Limit, o.Units, o.Allowed)
		}
	}
	return all
}
