package reliability

import (
	"fmt"
	"math"
	"time"

	"github.com/weir-dev/weir/limiter"
)

// Expectation is what clients may notice of a fault at the most.
type Expectation struct {
	// Failed requests.
	Failed int
	// P99 of the latency under the fault, after its opening, beyond what it was before. 5 ms on a machine of one's own; a
	// busy one may take longer.
	P99 time.Duration
	// Recovery, see Result.
	Recovery time.Duration
	// Given is the least that the hot tenants are given of their limits.
	Given float64
}

// usual is what holds for a fault unless it says otherwise.
func usual() Expectation {
	return Expectation{Failed: 0, P99: 25 * time.Millisecond, Recovery: 2 * time.Second, Given: 0.6}
}

// allowance is how many units of p's hot tenant may be admitted in a window beyond the promise: the bound that
// docs/concepts/local-mode.md derives, for every outage that the window touches, and the limit once more where Redis forgot what
// had been spent.
func allowance(p Policy, t *Trial) int64 {
	const (
		undecided = 50 * time.Millisecond  // --redis-timeout: for so long a replica may not know that it hears nothing
		stagger   = 500 * time.Millisecond // between the first replica that finds Redis back and the last
	)
	unheard := t.HotPerSecond * undecided.Seconds()
	units := 2*unheard + float64(t.Limiters-1)
	switch p.Algorithm {
	case limiter.SlidingWindowLog:
		units += float64(p.Limit) / 64
	case limiter.TokenBucket, limiter.LeakyBucket:
		units += float64(p.Limit) * stagger.Seconds() / p.Window.Seconds()
	case limiter.FixedWindow, limiter.SlidingWindowCounter:
	}
	all := int64(math.Ceil(units)) * t.touching(p.Window)
	if t.Forgets {
		all += p.Limit
	}
	return all
}

// touching is how many outages a window touches, if they come evenly.
func (t *Trial) touching(window time.Duration) int64 {
	if t.Outages < 2 {
		return 1
	}
	every := float64(t.Repaired-t.Broken) / float64(t.Outages)
	return 1 + int64(float64(window.Microseconds())/every)
}

// Shortfalls says where r is worse than expected.
func (r *Result) Shortfalls(want Expectation) []string {
	var all []string
	add := func(format string, args ...any) { all = append(all, r.Fault+": "+fmt.Sprintf(format, args...)) }
	if !r.Healthy {
		add("something was wrong before the fault already")
	}
	if r.Requests == 0 {
		add("nobody asked anything")
	}
	if r.Failed() > want.Failed {
		add("%d of %d requests failed, want at most %d: %v", r.Failed(), r.Requests, want.Failed, r.Failures)
	}
	if r.P99 > r.Calm+want.P99 {
		add("p99 of the latency is %v, want at most %v more than the %v before", r.P99, want.P99, r.Calm)
	}
	if r.Given < want.Given {
		add("hot tenants were given %.2f of their limits, want at least %.2f", r.Given, want.Given)
	}
	switch {
	case !r.Recovered:
		add("not all limiters decide with Redis again; the last other answer came %v after the repair", r.Recovery)
	case r.Recovery > want.Recovery:
		add("decided with Redis again after %v, want at most %v", r.Recovery, want.Recovery)
	}
	for _, o := range r.Overs {
		if o.Units > o.Allowed {
			add("%s of %d admitted %d units too many, want at most %d", o.Policy.Algorithm, o.Policy.Limit, o.Units, o.Allowed)
		}
	}
	return all
}
