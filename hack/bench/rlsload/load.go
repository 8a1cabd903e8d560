package rlsload

import (
	"math/rand/v2"
	"slices"
	"time"
)

// Load is a kind of load.
type Load struct {
	// Callers is the number of requests in flight, in a closed loop: each answer is followed by the next request.
	Callers int
	// Rate is the number of requests a second in an open loop: they are sent on schedule, and their latency counts from the time of
	// the schedule. 0 means a closed loop.
	Rate float64
	// Message returns an encoded RateLimitRequest. Calls are not concurrent for one connection.
	Message func(*rand.Rand) []byte
}

// drain is how long an open loop waits for the last answers.
const drain = 2 * time.Second

// Result is what came back in a period of load.
type Result struct {
	Allowed, Denied int
	Shed            int // answers UNAVAILABLE: the server rejected the request
	Failed          int // other errors, and requests without an answer
	Elapsed         time.Duration
	// Latencies of the requests that were decided, in ascending order.
	Latencies []time.Duration
}

// Decided is the number of requests that were decided.
func (r *Result) Decided() int { return r.Allowed + r.Denied }

// PerSecond is the number of decisions a second.
func (r *Result) PerSecond() float64 { return float64(r.Decided()) / r.Elapsed.Seconds() }

// Quantile returns the latency below which the share q of the decided requests was; 0 without a decided request.
func (r *Result) Quantile(q float64) time.Duration {
	if len(r.Latencies) == 0 {
		return 0
	}
	return r.Latencies[min(int(q*float64(len(r.Latencies))), len(r.Latencies)-1)]
}

func merge(all []*conn, elapsed time.Duration) *Result {
	total := &Result{Elapsed: elapsed}
	for _, c := range all {
		r := &c.result
		total.Allowed += r.Allowed
		total.Denied += r.Denied
		total.Shed += r.Shed
		total.Failed += r.Failed
		total.Latencies = append(total.Latencies, r.Latencies...)
	}
	slices.Sort(total.Latencies)
	return total
}
