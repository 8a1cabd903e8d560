package envoy

import (
	"math"
	"slices"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

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

func code(allowed bool) ratelimitv3.RateLimitResponse_Code {
	if allowed {
		return ratelimitv3.RateLimitResponse_OK
	}
	return ratelimitv3.RateLimitResponse_OVER_LIMIT
}

// statuses returns one status per answer, in order. Each describes the strictest enforced policy of its descriptor, and has no limit if
// no policy matched.
func statuses(answers []engine.Answer, multiplier bool) []*ratelimitv3.RateLimitResponse_DescriptorStatus {
	type row struct { // one status, allocated together
		status ratelimitv3.RateLimitResponse_DescriptorStatus
		limit  ratelimitv3.RateLimitResponse_RateLimit
		reset  durationpb.Duration
	}
	rows := make([]row, len(answers))
	list := make([]*ratelimitv3.RateLimitResponse_DescriptorStatus, len(answers))
	for i := range answers {
		r := &rows[i]
		list[i] = &r.status
		r.status.Code = code(answers[i].Allowed)
		strictest := answers[i].Strictest()
		if strictest == nil {
			continue
		}
		r.limit.Name, r.limit.RequestsPerUnit = strictest.Rule.Policy, clampUint32(strictest.Decision.Limit)
		setUnit(&r.limit, strictest.Window, multiplier)
		reset := untilReset(answers[i].Allowed, strictest.Decision)
		r.reset.Seconds, r.reset.Nanos = int64(reset/time.Second), int32(reset%time.Second)
		r.status.CurrentLimit, r.status.DurationUntilReset = &r.limit, &r.reset
		r.status.LimitRemaining = clampUint32(strictest.Remaining)
	}
	return list
}

// untilReset returns the duration from which Envoy derives X-RateLimit-Reset and Retry-After: for a denied request that can pass
// later, the time until it would pass, otherwise the time until the full limit is available.
func untilReset(allowed bool, d limiter.Decision) time.Duration {
	if allowed || d.RetryAfter == limiter.Never {
		return d.ResetAfter
	}
	return d.RetryAfter
}

// setUnit sets the unit of window. A window that is not exactly one unit is UNKNOWN, which Envoy omits from its headers, or a
// multiple of a unit for an Envoy with support for multipliers.
func setUnit(limit *ratelimitv3.RateLimitResponse_RateLimit, window time.Duration, multiplier bool) {
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
			limit.Unit = u.unit
		case multiplier:
			limit.Unit, limit.UnitMultiplier = u.unit, wrapperspb.UInt32(uint32(n))
		}
		return
	}
}

func clampUint32(n int64) uint32 { return uint32(min(max(n, 0), math.MaxUint32)) }

// mergeAnswers returns the answer for all descriptors except refunds. It has the strictest result of each policy, sorted by strictness,
// with enforced policies before shadow policies.
func mergeAnswers(answers []engine.Answer, intents []intent) engine.Answer {
	if len(answers) == 1 && intents[0] != refund {
		return answers[0]
	}
	all := engine.Answer{Allowed: true}
	for i := range answers {
		if intents[i] == refund {
			continue
		}
		all.Allowed = all.Allowed && answers[i].Allowed
		all.Results = append(all.Results, answers[i].Results...)
	}
	slices.SortStableFunc(all.Results, engine.CompareResults)
	seen := make(map[string]bool, len(all.Results))
	all.Results = slices.DeleteFunc(all.Results, func(r engine.Result) bool {
		repeated := seen[r.Rule.Policy]
		seen[r.Rule.Policy] = true
		return repeated
	})
	return all
}
