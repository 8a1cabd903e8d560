package rules

import (
	"strconv"
	"strings"

	"github.com/weir-dev/weir/limiter"
)

// Terms are what a rule says of one request that it matches.
type Terms struct {
	// Limit that the request's identifier is held to.
	Limit limiter.Limit
	// Tier that it is of, empty for the rule's own limit.
	Tier string
	// Unlimited: the request is not charged by this rule.
	Unlimited bool
	// Cost of one such request, in units, 0 … limiter.MaxUnits.
	Cost int64
}

// Terms returns what m's rule says of r, which it counts for identifier, as Identify returned it: the limit of the first
// tier that r is of, else the rule's own, and the cost.
func (m Matched) Terms(r *Request, identifier string) Terms {
	terms := Terms{Limit: m.Rule.Limit, Cost: 1}
	for i := range m.Rule.tiers {
		t := &m.Rule.tiers[i]
		if !t.holds(m, r, identifier) {
			continue
		}
		terms.Tier, terms.Unlimited = t.Name, t.Unlimited
		if !t.Unlimited {
			terms.Limit = t.limit
		}
		break
	}
	if !terms.Unlimited && m.Rule.Cost != nil {
		terms.Cost = m.cost(r)
	}
	return terms
}

// defaultCost is what a request costs whose own cost is missing or no number of units.
const defaultCost = 1

func (m Matched) cost(r *Request) int64 {
	cost := m.Rule.Cost
	switch {
	case cost.Header != "":
		units, err := strconv.ParseUint(strings.TrimSpace(r.Headers[cost.Header]), 10, 63)
		if err != nil || units > limiter.MaxUnits {
			return defaultCost
		}
		return int64(units)
	case m.Rule.costUnits != nil:
		units, err := m.Rule.costUnits.int(m.activation(r))
		if err != nil {
			return defaultCost
		}
		return clampCost(units)
	default:
		return cost.Value
	}
}

// clampCost is what a request is charged that comes out at so many units: at most MaxUnits. Were more no cost, the largest
// requests would be the cheapest.
func clampCost(units int64) int64 {
	if units < 0 {
		return defaultCost
	}
	return min(units, limiter.MaxUnits)
}
