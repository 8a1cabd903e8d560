package rules

import "github.com/weir-dev/weir/limiter"

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

// Terms returns what m's rule says of r, which it counts for an identifier.
func (m Matched) Terms(_ *Request, _ string) Terms { return Terms{Limit: m.Rule.Limit, Cost: 1} }
