package reliability

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/weir-dev/weir/limiter"
)

// Expectation bounds the effects of a fault on clients.
type Expectation struct {
	// Failed is the largest number of failed requests.
	Failed int
	// P99 bounds SteadyP99 of Result minus SteadyCalm.
	P99 time.Duration
	// Recovery bounds that of Result.
	Recovery time.Duration
	// Given is the smallest share of their limits that the hot tenants are admitted.
	Given float64
}

// usual is the expectation of most faults.
func usual() Expectation {
	return Expectation{Failed: 0, P99: 5 * time.Millisecond, Recovery: 2 * time.Second, Given: 0.6}
}

// allowance is the number of units that p's hot tenant may be admitted in a window beyond the limit: the bound that
// docs/concepts/local-mode.md derives, for every outage that the window overlaps, plus the limit if Redis lost its counters. A pause of the
// machine delays the detection of the outage.
func allowance(p Policy, t *Trial) int64 {
	const (
		undecided = 50 * time.Millisecond  // --redis-timeout: a replica detects an outage within this time
		stagger   = 500 * time.Millisecond // between the first and the last replica that detects the recovery
	)
	unknown := t.HotPerSecond * (undecided + t.pause()).Seconds()
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

// Shortfalls describe where a result is worse than expected. A machine with too little CPU time explains those in Slow, but not those in
// Wrong.
type Shortfalls struct{ Wrong, Slow []string }

// All returns all shortfalls.
func (s Shortfalls) All() []string { return slices.Concat(s.Wrong, s.Slow) }

// Shortfalls compares r with an expectation.
func (r *Result) Shortfalls(want Expectation) Shortfalls {
	var s Shortfalls
	wrong := func(format string, args ...any) { s.Wrong = append(s.Wrong, r.Fault+": "+fmt.Sprintf(format, args...)) }
	slow := func(format string, args ...any) { s.Slow = append(s.Slow, r.Fault+": "+fmt.Sprintf(format, args...)) }
	if r.Requests == 0 {
		wrong("no requests were sent")
	}
	if r.FailedBefore > 0 {
		wrong("%d requests failed before the fault", r.FailedBefore)
	}
	if r.LocalBefore > 0 {
		slow("%d requests were decided without Redis before the fault", r.LocalBefore)
	}
	if r.Failed() > want.Failed {
		wrong("%d of %d requests failed, want at most %d: %v", r.Failed(), r.Requests, want.Failed, r.Failures)
	}
	if r.SteadyP99 > r.SteadyCalm+want.P99 {
		slow("p99 latency is usually %v, want at most %v more than the usual %v before the fault", r.SteadyP99, want.P99, r.SteadyCalm)
	}
	if r.Given < want.Given {
		wrong("hot tenants were admitted %.2f of their limits, want at least %.2f", r.Given, want.Given)
	}
	switch {
	case !r.Recovered:
		wrong("not all limiters decide with Redis again; the last answer without Redis arrived %v after the repair", r.Recovery)
	case r.Recovery > want.Recovery:
		slow("limiters decided with Redis again after %v, want at most %v", r.Recovery, want.Recovery)
	}
	for _, o := range r.Overs {
		if o.Units > o.Allowed {
			wrong("%s with limit %d per %v admitted %d units too many, want at most %d", o.Policy.Algorithm, o.Policy.Limit, o.Policy.Window, o.Units, o.Allowed)
		}
	}
	return s
}
