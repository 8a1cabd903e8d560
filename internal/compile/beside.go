package compile

import (
	"reflect"
	"slices"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/rules"
)

// DecidesNothingBeside says whether rule, once other has been in force for two windows, denies nothing that other lets
// pass. It says so only where it follows from the two rules whatever the requests:
//
//   - both deny, neither being in shadow, and other never gives way;
//   - other counts every request that rule counts, at the same cost, in a counter that no other identifier divides;
//   - other, with whatever tier of rule, admits no more;
//   - other is as strict while Redis is away.
func DecidesNothingBeside(rule, other *rules.Rule) bool {
	return speaksWherever(other, rule) && !other.Default && !rule.Shadow && !other.Shadow &&
		rule.Axis == other.Axis && rule.Identifier == other.Identifier &&
		countsAll(other, rule) &&
		len(other.Tiers) == 0 && reflect.DeepEqual(rule.Cost, other.Cost) &&
		admitsNoMore(other, rule) &&
		strictness(other.OnStoreFailure) >= strictness(rule.OnStoreFailure)
}

// speaksWherever says whether wide is for all domains that narrow is for.
func speaksWherever(wide, narrow *rules.Rule) bool {
	switch {
	case wide.AllDomains || narrow.AllDomains:
		return wide.AllDomains
	case narrow.Domain != "":
		return speaksIn(wide, narrow.Domain)
	default:
		return !slices.ContainsFunc(narrow.Domains, func(domain string) bool { return !speaksIn(wide, domain) })
	}
}

// countsAll says whether wide counts all requests that share a counter of narrow in one of its own. What endpoints and
// descriptors a request is counted for hangs on the whole match, so that then only equal ones are compared.
func countsAll(wide, narrow *rules.Rule) bool {
	perEndpoint := wide.PerEndpoint || wide.Identifier.From == rules.FromEndpoint
	if perEndpoint || len(wide.Match.Descriptors) > 0 || len(narrow.Match.Descriptors) > 0 {
		return wide.PerEndpoint == narrow.PerEndpoint && reflect.DeepEqual(wide.Match, narrow.Match)
	}
	return Covers(&wide.Match, &narrow.Match)
}

// admitsNoMore says whether strict, counting at least what lax counts, denies whenever lax does:
//
//   - windows nest: the one of strict is a multiple of that of lax, and its limit no higher. A SlidingWindowCounter weighs
//     what came before by its own window, so that its windows must be the same;
//   - buckets: strict refills or drains no more in no less time, and holds no more. Rates alone would not do, for while Redis
//     is away each replica has its share of a limit in whole units.
func admitsNoMore(strict, lax *rules.Rule) bool {
	if strict.Algorithm != lax.Algorithm {
		return false
	}
	switch strict.Algorithm {
	case limiter.TokenBucket, limiter.LeakyBucket:
		return strict.Units <= lax.Units && strict.WindowSeconds >= lax.WindowSeconds && strict.Burst <= lax.Burst && len(lax.Tiers) == 0
	case limiter.SlidingWindowCounter:
		return strict.WindowSeconds == lax.WindowSeconds && strict.Units <= least(lax)
	default:
		return strict.WindowSeconds%lax.WindowSeconds == 0 && strict.Units <= least(lax)
	}
}

// least is the lowest limit that rule holds any of its requests to.
func least(rule *rules.Rule) int64 {
	units := rule.Units
	for _, tier := range rule.Tiers {
		if !tier.Unlimited {
			units = min(units, tier.Units)
		}
	}
	return units
}

// strictness orders what decides while Redis is away.
func strictness(f rules.StoreFailure) int {
	switch f {
	case rules.AllowOnFailure:
		return 0
	case rules.DenyOnFailure:
		return 2
	default:
		return 1
	}
}
