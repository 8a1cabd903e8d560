package admin

import (
	"context"
	"log/slog"
	"slices"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/matching"
)

// Scanner lists the keys of counters. Both stores implement it.
type Scanner interface {
	Scan(ctx context.Context, keys limiter.KeyRange, cursor string, n int) (found []string, next string, err error)
}

// Counters reads and resets the counters of an engine.
type Counters struct {
	Engine  *engine.Engine
	Scanner Scanner
	Log     *slog.Logger
	// Portion returns this replica's share of the limit of a charge, which counts while Redis is unavailable. nil if the whole limit counts.
	Portion func(limiter.Charge) Portion
}

// Portion is what counts of a limit in one replica, in units. Package local computes it.
type Portion struct {
	Units    int64 // of [limiter.Limit.Units]
	Capacity int64 // of [limiter.Limit.Capacity]
}

// CounterList is a page of counters.
type CounterList struct {
	Counters []Counter `json:"counters"`
	// Continue selects the next page; "" after the last one. A page can be empty before the last one.
	Continue string `json:"continue,omitempty"`
	// Skipped are policies that were not searched: without a policy in the query, the identifier could be an API key, which must not be
	// sent to Redis.
	Skipped    []string    `json:"skipped,omitempty"`
	Unsearched *Unsearched `json:"unsearched,omitempty"`
}

// Unsearched are policies that count each endpoint separately, and whose counters were not found because Redis could not be searched.
type Unsearched struct {
	Policies []string `json:"policies"`
	// Reason is the error of the search.
	Reason string `json:"reason"`
}

// Counter is one counter.
type Counter struct {
	Policy string `json:"policy"`
	// Identifier as it is counted: API keys are hashed, and so are identifiers that are too long for a key. "-" counts requests without an
	// identifier, "?" those whose identifier cannot be read, and "%overflow" those of identifiers over the bound.
	Identifier string `json:"identifier"`
	// Hashed is true if Identifier is the hash of an API key. A request names it with "hash:" before it.
	Hashed    bool              `json:"hashed,omitempty"`
	Endpoint  string            `json:"endpoint,omitempty"`
	Key       string            `json:"key"`
	Tier      string            `json:"tier,omitempty"`
	Algorithm limiter.Algorithm `json:"algorithm"`
	Limit     int64             `json:"limit"`
	Window    string            `json:"window"`
	// Used and Remaining are units. If Tiers is not empty, Limit and Remaining are those of the tier that admits most.
	Used         int64 `json:"used"`
	Remaining    int64 `json:"remaining"`
	ResetAfterMs int64 `json:"resetAfterMs"`
	// Over is true if no unit remains, under each of Tiers.
	Over bool `json:"over"`
	// Tiers are the tiers that requests of the identifier can belong to, if that depends on other parts of a request than the identifier.
	Tiers []CounterTier `json:"tiers,omitempty"`
	// Local is true if Redis is unavailable. Limit, Used and Remaining are then those of this replica's share of the limit: added over all
	// replicas, they are those of the limit. A share is listed for its identifier even if nothing counts on it.
	Local bool `json:"local,omitempty"`
}

// CounterTier is a counter under one of several possible tiers. The limit of the policy has no name.
type CounterTier struct {
	Tier      string `json:"tier,omitempty"`
	Unlimited bool   `json:"unlimited,omitempty"`
	Limit     int64  `json:"limit"`
	Remaining int64  `json:"remaining"`
	Over      bool   `json:"over"`
}

// CanBeOver reports whether no unit remains under at least one tier.
func (c *Counter) CanBeOver() bool {
	return c.Over || slices.ContainsFunc(c.Tiers, func(t CounterTier) bool { return t.Over })
}

// found is a key with what it counts.
type found struct {
	rule                      *matching.Compiled
	key, identifier, endpoint string
}

// read reads the counters at keys. It leaves out those on which nothing counts any more, except local shares: the shares of other replicas
// can have used units.
func (c *Counters) read(ctx context.Context, keys []found) ([]Counter, error) {
	keys = slices.DeleteFunc(keys, func(k found) bool { return k.rule.LargestLimit().Blocks() }) // nothing counts on them
	if len(keys) == 0 {
		return nil, nil
	}
	var charges []limiter.Charge
	for _, k := range keys {
		for _, limit := range readUnder(k.rule, k.rule.TiersOf(k.identifier)) {
			charges = append(charges, limiter.Charge{Key: k.key, Limit: limit, WholeShare: k.rule.LocalShare == rules.WholeShare})
		}
	}
	decisions, err := c.Engine.Peek(ctx, charges)
	if err != nil {
		return nil, err
	}
	var counters []Counter
	for i := range keys {
		n := len(readUnder(keys[i].rule, keys[i].rule.TiersOf(keys[i].identifier)))
		counter := c.newCounter(&keys[i], charges[:n], decisions[:n])
		if d := decisions[0]; d.Origin != limiter.Undecided && (counter.Used > 0 || counter.Local) {
			counters = append(counters, counter)
		}
		charges, decisions = charges[n:], decisions[n:]
	}
	return counters, nil
}

// readUnder returns the limits under which a counter is read. The units of a window are the same under each limit, and more of them are visible under a
// larger one. A bucket drains at the rate of its limit, so it is read under each.
func readUnder(rule *matching.Compiled, possible []matching.PossibleTier) (limits []limiter.Limit) {
	if !rule.Limit.Traits().Drains {
		return []limiter.Limit{rule.LargestLimit()}
	}
	for _, t := range possible {
		if t.Unlimited {
			t.Limit = rule.Limit
		}
		if t.Limit.Blocks() {
			t.Limit = rule.LargestLimit()
		}
		limits = append(limits, t.Limit)
	}
	return limits
}

// portion returns what counts of a limit: all of it, or this replica's share.
func (c *Counters) portion(k *found, limit limiter.Limit, isLocal bool) Portion {
	if isLocal && c.Portion != nil {
		return c.Portion(limiter.Charge{Key: k.key, Limit: limit, WholeShare: k.rule.LocalShare == rules.WholeShare})
	}
	return Portion{Units: limit.Units(), Capacity: limit.Capacity()}
}

// newCounter returns a counter that was read under the limits of charges.
func (c *Counters) newCounter(k *found, charges []limiter.Charge, decisions []limiter.Decision) Counter {
	possible, isLocal := k.rule.TiersOf(k.identifier), decisions[0].Origin == limiter.OriginLocal
	used := make([]int64, len(charges))
	for i := range charges {
		used[i] = max(0, c.portion(k, charges[i].Limit, isLocal).Capacity-decisions[i].Remaining)
	}
	largest := largestOf(possible)
	counter := Counter{
		Policy: k.rule.Policy, Identifier: k.identifier, Hashed: k.rule.Hashes(k.identifier), Endpoint: k.endpoint, Key: k.key,
		Algorithm: k.rule.Limit.Algorithm(), Window: k.rule.Limit.Window().String(), Used: slices.Max(used), Local: isLocal,
	}
	for i, t := range possible {
		if t.Unlimited {
			t.Limit = k.rule.Limit
		}
		index := min(i, len(used)-1)
		var portion Portion // none of a limit of 0
		if !t.Limit.Blocks() {
			portion = c.portion(k, t.Limit, isLocal)
		}
		remaining := max(0, portion.Capacity-used[index])
		tier := CounterTier{Tier: t.Name, Unlimited: t.Unlimited, Limit: portion.Units, Remaining: remaining, Over: remaining == 0 && !t.Unlimited}
		if i == largest {
			counter.Limit, counter.Remaining, counter.Over = tier.Limit, tier.Remaining, tier.Over
		}
		if t.Unlimited {
			tier.Limit, tier.Remaining = 0, 0
		}
		counter.Tiers = append(counter.Tiers, tier)
		counter.ResetAfterMs = max(counter.ResetAfterMs, milliseconds(decisions[index].ResetAfter))
	}
	if len(possible) == 1 {
		counter.Tier, counter.Tiers = possible[0].Name, nil
	}
	return counter
}

// largestOf returns the index of the possible tier that admits most.
func largestOf(possible []matching.PossibleTier) (largest int) {
	for i, t := range possible {
		if most := &possible[largest]; !most.Unlimited && (t.Unlimited || t.Limit.Capacity() > most.Limit.Capacity()) {
			largest = i
		}
	}
	return largest
}
