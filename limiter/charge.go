package limiter

import "time"

// Charge requests Cost units on the counter at Key under Limit.
type Charge struct {
	// Key of the counter; build it with [KeySpace.Key]. The keys of one call are distinct.
	Key string
	// Limit of the counter.
	Limit Limit
	// Cost is the number of units. A cost of 0 or below counts nothing.
	Cost int64
	// Debt charges report usage that has happened. They are allowed while one unit remains, and always counted in full, up to MaxUnits:
	// also if this charge or another one is denied. Their algorithm is FixedWindow or SlidingWindowCounter, and they have no Lease.
	Debt bool
	// Whole debts are allowed only if all of their units remain. They too are always counted in full.
	Whole bool
	// Shadow charges are counted and reported. A denied shadow charge does not prevent the other charges from being counted.
	Shadow bool
	// OnStoreFailure is how the charge is decided while the counter is unavailable. Stores that do not fail over ignore it.
	OnStoreFailure StoreFailure
	// WholeShare is true if all requests of the key come to one replica: while the counter is unavailable, each replica admits what is left
	// of the whole limit, not an equal share of it.
	WholeShare bool
	// Lease allows a replica to spend units of the counter ahead. It is nil if every charge is spent on its own.
	Lease *LeaseTerms
	// Deny denies the charge, whatever remains.
	Deny bool
	// Rule of the charge. It is nil if the counter is that of no rule.
	Rule *CountedRule
	// Endpoint is that in the key, "" if endpoints are not counted separately.
	Endpoint string
	// Override charges have a limit that replaces that of the rule, and a counter for such limits with this window.
	Override bool
	// Placeholder charges are those of requests without an identifier, which share the counter.
	Placeholder bool
	// Alternative charges of one call that end on the same counter are charged once, with the highest cost.
	Alternative bool
}

// CountedRule is what stores know about a rule. All charges of a rule have the same *CountedRule until the rule changes.
type CountedRule struct {
	// Policy is the name of the rule's policy. Namespace is empty for cluster policies.
	Policy, Namespace string
	Algorithm         Algorithm
	Compact           bool
	// Lifetime is the longest time that a counter is live after a charge under the limits of the rule.
	Lifetime time.Duration
	// Keys of the counters. Rules with equal Keys have the same counters.
	Keys KeySpace
	// KeysFor returns the keys of counters under a limit that replaces that of the rule. They do not depend on its units, unless it is 0.
	KeysFor func(Limit) KeySpace
}

// SharedKey returns the key of the counter that identifiers without a counter of their own share under the rule and the limit of c.
func (c *Charge) SharedKey() string {
	keys := c.Rule.Keys
	if c.Override {
		keys = c.Rule.KeysFor(c.Limit)
	}
	return keys.SharedKey(c.Endpoint)
}

// Bounds of leases.
const (
	MaxLeasePercent = 50
	MinLeaseAge     = 100 * time.Millisecond
	MaxLeaseAge     = 10 * time.Second
)

// LeaseTerms bound the leases of a counter: units that a replica has spent on the counter ahead of the requests that it then admits from
// memory.
type LeaseTerms struct {
	// MaxPercent is the largest part of the limit that all replicas together hold in leases, in percent, 1 … [MaxLeasePercent].
	MaxPercent int64
	// MaxAge is the longest time from the spend to the last request that is admitted from it, [MinLeaseAge] … [MaxLeaseAge]. It is at most
	// half of the window.
	MaxAge time.Duration
}

// StoreFailure is how a charge is decided while its counter is unavailable.
type StoreFailure uint8

// The ways to decide while a counter is unavailable.
const (
	LocalOnFailure StoreFailure = iota // on this replica's share of the limit
	AllowOnFailure                     // as if nothing had been spent; nothing is counted
	DenyOnFailure                      // not at all: the request is refused with an error; a shadow charge is allowed
)

// maxCost is above every limit and burst. A higher cost is denied in the same way, and no sum overflows.
const maxCost = 2 * MaxUnits

// Units is Cost, bounded to at least 0 and at most an amount that no limit admits, which is that of a charge to Deny.
func (c *Charge) Units() int64 {
	if c.Deny {
		return maxCost
	}
	return units(c.Cost)
}

// Needed is the number of units that must remain so that the charge is allowed.
func (c *Charge) Needed() int64 {
	if c.Debt && !c.Whole {
		return min(c.Units(), 1)
	}
	return c.Units()
}

// CountsAlways reports whether the charge is counted whatever the decisions about it and about other charges are.
func (c *Charge) CountsAlways() bool { return c.Debt && c.Cost > 0 }

// IsCounted reports whether a charge with that decision, which is allowed or a debt, was counted. What local mode counts is reported to the store
// after an outage.
func (c *Charge) IsCounted(d *Decision) bool {
	return d.Origin == OriginStore || c.OnStoreFailure == LocalOnFailure
}

func units(cost int64) int64 { return min(max(cost, 0), maxCost) }
