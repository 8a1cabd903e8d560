package envoy

import (
	"math"
	"slices"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/engine"
)

// Units of Envoy without a constant in Go. A month has 30 days and a year 365, as in Envoy.
const (
	day   = 24 * time.Hour
	week  = 7 * day
	month = 30 * day
	year  = 365 * day
)

// untilReset returns the duration from which Envoy derives X-RateLimit-Reset and Retry-After: for a denied request that can pass
// later, the time until it would pass, otherwise the time until the full limit is available.
func untilReset(allowed bool, d limiter.Decision) time.Duration {
	if allowed || d.RetryAfter == limiter.Never {
		return d.ResetAfter
	}
	return d.RetryAfter
}

// unitOf returns the unit of window and how often it fits, 1 unless multiplier is true. A window that is not exactly one unit is UNKNOWN,
// which Envoy omits from its headers, or a multiple of a unit for an Envoy with support for multipliers.
func unitOf(window time.Duration, multiplier bool) (unit ratelimitv3.RateLimitResponse_RateLimit_Unit, times uint32) {
	units := [...]struct {
		length time.Duration
		unit   ratelimitv3.RateLimitResponse_RateLimit_Unit
	}{
		{year, ratelimitv3.RateLimitResponse_RateLimit_YEAR},
		{month, ratelimitv3.RateLimitResponse_RateLimit_MONTH},
		{week, ratelimitv3.RateLimitResponse_RateLimit_WEEK},
		{day, ratelimitv3.RateLimitResponse_RateLimit_DAY},
		{time.Hour, ratelimitv3.RateLimitResponse_RateLimit_HOUR},
		{time.Minute, ratelimitv3.RateLimitResponse_RateLimit_MINUTE},
		{time.Second, ratelimitv3.RateLimitResponse_RateLimit_SECOND},
	}
	for _, u := range units {
		if window%u.length != 0 {
			continue
		}
		switch n := window / u.length; {
		case n == 1:
			return u.unit, 1
		case multiplier:
			return u.unit, uint32(n)
		}
		break
	}
	return ratelimitv3.RateLimitResponse_RateLimit_UNKNOWN, 1
}

func clampUint32(n int64) uint32 { return uint32(min(max(n, 0), math.MaxUint32)) }

// mergeAnswers returns the answer for all descriptors except refunds. It has the strictest result of each policy, sorted by strictness,
// with enforced policies before shadow policies.
func mergeAnswers(answers []engine.Answer, intents []intent) engine.Answer {
	if len(answers) == 1 && intents[0] != refund {
		return answers[0]
	}
	n := 0
	for i := range answers {
		n += len(answers[i].Results)
	}
	all := engine.Answer{Allowed: true, Results: make([]engine.Result, 0, n)}
	for i := range answers {
		if intents[i] == refund {
			continue
		}
		all.Allowed = all.Allowed && answers[i].Allowed
		all.Results = append(all.Results, answers[i].Results...)
	}
	slices.SortStableFunc(all.Results, engine.CompareResults)
	all.Results = firstOfEachPolicy(all.Results)
	return all
}

// firstOfEachPolicy removes the results of policies that have an earlier one.
func firstOfEachPolicy(results []engine.Result) []engine.Result {
	const few = 16 // results that are compared in less time than a map takes
	var seen map[string]bool
	if len(results) > few {
		seen = make(map[string]bool, len(results))
	}
	kept := results[:0]
	for i := range results {
		policy := results[i].Rule.Policy
		repeated := seen[policy]
		if seen != nil {
			seen[policy] = true
		} else {
			repeated = slices.ContainsFunc(kept, func(r engine.Result) bool { return r.Rule.Policy == policy })
		}
		if !repeated {
			kept = append(kept, results[i])
		}
	}
	return kept
}
