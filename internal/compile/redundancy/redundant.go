// Package redundancy compares rules, and finds those that have no effect because of another rule.
package redundancy

import (
	"fmt"
	"math"
	"reflect"
	"slices"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/rules"
)

// IsRedundant reports whether rule never denies a request that other admits, once other has been enforced for two windows. It returns true
// only if this follows from the two rules for all requests:
//
//   - Both deny: neither is a shadow rule, and other is not a default.
//   - Both count by the same sources, and do the same with a request without an identifier.
//   - other counts every request that rule counts, at the same cost, in a counter that is not divided among more identifiers.
//   - other admits at most as much as every tier of rule.
//   - other is at least as strict while Redis is unavailable.
//   - Neither has debts: they count requests that other policies deny, and admit requests that cost more than what remains.
//   - Neither has leases: with them, a policy admits some requests more, and denies some that it would admit.
//   - rule has exact counters, or other has compact ones: identifiers that share a compact counter are denied earlier.
//   - The routes of rule are known. The webhook and files do not know the routes of a Gateway, and compile its rule without routes.
func IsRedundant(rule, other *rules.Rule) bool {
	return coversDomains(other, rule) && !other.Default && !rule.Shadow && !other.Shadow &&
		rule.Axis == other.Axis && rule.Identifier == other.Identifier &&
		slices.Equal(rule.Fallbacks, other.Fallbacks) && rule.OnMissing == other.OnMissing &&
		countsAllRequests(other, rule) &&
		len(other.Tiers) == 0 && !other.TiersOnly && reflect.DeepEqual(rule.Cost, other.Cost) &&
		isAsStrict(other, rule) && !rule.Debt && !other.Debt && rule.Lease == nil && other.Lease == nil &&
		(!rule.Compact || other.Compact) && (rule.Match.Routes == nil || len(rule.Match.Routes) > 0) &&
		failureStrictness(other) >= failureStrictness(rule)
}

// comparison is what two rules have in common if one can make the other redundant, see IsRedundant.
type comparison struct {
	axis        string
	identifier  rules.Identifier
	algorithm   limiter.Algorithm
	descriptors string
}

// maxCompared bounds the rules that one rule is compared with, so that the comparison of many equal ones takes linear time.
const maxCompared = 1000

// Comparable returns a function that returns the rules that can make a rule redundant, at most 1000 of them, and those without a domain if it
// replaces some, for the warnings of that rule.
func Comparable(list []rules.Rule) func(*rules.Rule) []rules.Rule {
	comparisonOf := func(r *rules.Rule) comparison {
		c := comparison{r.Axis, r.Identifier, r.Algorithm, ""}
		if len(r.Match.Descriptors) > 0 {
			c.descriptors = fmt.Sprintf("%q", r.Match.Descriptors)
		}
		return c
	}
	groups := map[comparison][]rules.Rule{}
	var ofCluster []rules.Rule
	for i := range list {
		if list[i].Domain == "" {
			ofCluster = append(ofCluster, list[i])
		}
		key := comparisonOf(&list[i])
		if len(groups[key]) < maxCompared {
			groups[key] = append(groups[key], list[i])
		}
	}
	return func(r *rules.Rule) []rules.Rule {
		if len(r.ReplacesDefaults) > 0 {
			return slices.Concat(groups[comparisonOf(r)], ofCluster)
		}
		return groups[comparisonOf(r)]
	}
}

// coversDomains reports whether wide applies to every domain that narrow applies to.
func coversDomains(wide, narrow *rules.Rule) bool {
	switch {
	case wide.AllDomains || narrow.AllDomains:
		return wide.AllDomains
	case len(narrow.Domains) == 0 && narrow.Domain != "":
		return wide.AppliesTo(narrow.Domain)
	default:
		return !slices.ContainsFunc(narrow.Domains, func(domain string) bool { return !wide.AppliesTo(domain) })
	}
}

// countsAllRequests reports whether a counter of wide counts all requests that share a counter of narrow. The endpoint and the descriptor of
// a request depend on the whole match, so rules that count by them are compared for equality.
func countsAllRequests(wide, narrow *rules.Rule) bool {
	perEndpoint := wide.PerEndpoint || wide.Identifier.From == rules.FromEndpoint
	if perEndpoint || len(wide.Match.Descriptors) > 0 || len(narrow.Match.Descriptors) > 0 {
		return wide.PerEndpoint == narrow.PerEndpoint && reflect.DeepEqual(wide.Match, narrow.Match)
	}
	return coversMatch(wide, narrow)
}

// coversMatch reports whether wide matches every request of its domains that narrow matches. A rule without a match does not match all
// kinds of requests, see [rules.Rule.Kinds].
func coversMatch(wide, narrow *rules.Rule) bool {
	return narrow.Kinds()&^wide.Kinds() == 0 && Covers(&wide.Match, &narrow.Match)
}

// isAsStrict reports whether strict denies whenever lax denies, if strict counts at least the requests that lax counts:
//
//   - Windows: the window of strict is a multiple of the window of lax, and its limit is not higher. If a
//     window also counts the previous one, their lengths must be equal. Windows that begin with a request are never comparable.
//   - Buckets: strict refills or drains at most as many units in at least as much time, and its capacity is not higher. Equal rates are not
//     enough, because while Redis is unavailable each replica has its share of a limit in whole units.
func isAsStrict(strict, lax *rules.Rule) bool {
	if strict.Algorithm != lax.Algorithm {
		return false
	}
	switch traits := strict.Algorithm.Traits(); {
	case traits.Drains:
		return strict.Units <= lax.Units && strict.WindowSeconds >= lax.WindowSeconds && strict.Burst <= lax.Burst && len(lax.Tiers) == 0
	case traits.Log || traits.EndsWithWindow():
		return strict.WindowSeconds%lax.WindowSeconds == 0 && strict.Units <= lowestLimit(lax)
	default:
		return traits.Aligned && strict.WindowSeconds == lax.WindowSeconds && strict.Units <= lowestLimit(lax)
	}
}

// lowestLimit returns the lowest limit of the rule and its tiers, in units.
func lowestLimit(rule *rules.Rule) int64 {
	units := rule.Units
	if rule.TiersOnly {
		units = math.MaxInt64
	}
	for _, tier := range rule.Tiers {
		if !tier.Unlimited {
			units = min(units, tier.Units)
		}
	}
	return units
}

// failureStrictness orders rules by how strict they are while Redis is unavailable.
func failureStrictness(r *rules.Rule) int {
	switch {
	case r.OnStoreFailure == rules.AllowOnFailure:
		return 0
	case r.LocalShare == rules.WholeShare:
		return 1
	case r.OnStoreFailure == rules.LocalOnFailure:
		return 2
	default:
		return 3
	}
}
