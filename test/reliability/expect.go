package reliability

import (
	"fmt"
	"time"
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

// allowance is how many units of p's hot tenant may be admitted beyond the promise in the course of a fault:
//
//   - what the replicas had not told one another when Redis went: tellable of the limit;
//   - what is asked while a call that will fail is waited for, and may be decided twice;
//   - the limit once more, where Redis forgot what had been spent.
func allowance(p Policy, t *Trial) int64 {
	const tellable = 0.15
	const undecided = 50 * time.Millisecond // --redis-timeout
	units := int64(tellable*float64(p.Limit) + t.HotPerSecond*undecided.Seconds())
	if t.Forgets {
		units += p.Limit
	}
	return units
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
