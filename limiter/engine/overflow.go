package engine

import (
	"context"
	"hash/maphash"
	"maps"
	"math/bits"
	"sync"
	"time"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/rules/matching"
)

// Identifiers bounds the live counters of each policy, and so the memory that clients can fill by inventing identifiers. Identifiers
// that have a live counter keep it. See also [Engine.ObserveMemory].
type Identifiers struct {
	// Max is the number of live counters of a policy from which on new identifiers get no counter of their own. 0: there is no such number.
	Max int64
	// Deny denies new identifiers that get no counter. Otherwise they share one counter.
	Deny bool
}

// BoundIdentifiers makes the Engine bound the live counters of each policy. Each Engine estimates those that its requests were charged
// to, with an error of 3 %. Limits that come with requests have bounds of their own.
func BoundIdentifiers(bound Identifiers) Option {
	return func(e *Engine) {
		e.populations = &populations{bound: bound, seed: maphash.MakeSeed(), byKey: map[populationKey]*population{}, crowded: map[string]crowded{}}
	}
}

// overrideClasses is the number of populations of a rule for limits that come with requests. Their windows are up to limiter.MaxWindow and
// chosen by callers, so limits whose counters have about the same lifetime share a population: that of class i is 2^i seconds.
const overrideClasses = 24

// ownLimit is the class of counters under the limits of the rule itself.
const ownLimit = -1

// overrideClass is the class of the counters of a limit that comes with a request.
func overrideClass(limit limiter.Limit) int {
	seconds := (lifetime(limit) + time.Second - 1) / time.Second
	return min(bits.Len64(uint64(max(seconds, 1)-1)), overrideClasses-1)
}

// lifetime is the longest time that a counter is live after a charge.
func lifetime(limit limiter.Limit) time.Duration {
	traits := limit.Traits()
	if traits.Drains { // from full
		return time.Duration(float64(limit.Capacity()) / float64(limit.Units()) * float64(limit.Window()))
	}
	return time.Duration(traits.Windows) * limit.Window()
}

// longestLifetime is the longest lifetime of a counter under the limits of a rule and its tiers.
func longestLifetime(rule *matching.Compiled) time.Duration {
	longest := lifetime(rule.Limit)
	for _, tier := range rule.Tiers {
		of := rule.Rule
		of.Units, of.Burst = tier.Units, tier.Burst
		if limit, err := of.Limit(); err == nil { // an unlimited tier has no limit
			longest = max(longest, lifetime(limit))
		}
	}
	return longest
}

// populations are those of all rules. They outlive a change of the rules, unless it begins new counters.
type populations struct {
	bound Identifiers
	seed  maphash.Seed

	mu      sync.Mutex
	byKey   map[populationKey]*population
	crowded map[string]crowded // by policy
}

type populationKey struct {
	counters string // one key of the rule: it contains the policy, the window and the algorithm
	class    int    // an overrideClass, or ownLimit
}

func countersOf(rule *matching.Compiled) string { return rule.Keys.SharedKey("") }

// of returns the population of a rule's counters of a class. The metrics report the estimate of those under its own limits.
func (p *populations) of(rule *matching.Compiled, class int, metrics *Metrics, now time.Time) *population {
	p.mu.Lock()
	defer p.mu.Unlock()
	report, longest := func(float64) {}, time.Second<<max(class, 0)
	if class == ownLimit {
		report, longest = metrics.identifiers.WithLabelValues(rule.Policy).Set, longestLifetime(rule)
	}
	key := populationKey{countersOf(rule), class}
	found, ok := p.byKey[key]
	if !ok {
		found = newPopulation(p.bound.Max, report, now)
		found.storage = storageOf(rule)
		p.byKey[key] = found
	}
	found.setLifetime(longest) // a change of a burst changes it, and keeps the counters
	return found
}

// keep drops the populations of counters that the rules of index do not have.
func (p *populations) keep(index *matching.Index) {
	p.mu.Lock()
	defer p.mu.Unlock()
	kept, policies := map[string]bool{}, map[string]bool{}
	for rule := range index.Rules() {
		kept[countersOf(rule)], policies[rule.Policy] = true, true
	}
	maps.DeleteFunc(p.byKey, func(key populationKey, _ *population) bool { return !kept[key.counters] })
	maps.DeleteFunc(p.crowded, func(policy string, _ crowded) bool { return !policies[policy] })
}

// population returns the population of the rule's counters under limit, which replaces those of the rule if isOverride.
func (a *active) population(rule *matching.Compiled, limit limiter.Limit, isOverride bool) *population {
	of := a.counters.of(rule)
	cached, class := &of.population, ownLimit
	if isOverride {
		class = overrideClass(limit)
		cached = &of.overrides[class]
	}
	found := cached.Load()
	if found == nil {
		found = a.populations.of(rule, class, a.counters.metrics, a.clock())
		cached.Store(found)
	}
	return found
}

// addCounters adds the counters to which the store has charged units to their populations. Requests that are denied make no counter, so
// that they cannot bring a policy over the bound.
func (a *active) addCounters(charges []ruleCharge, decisions []limiter.Decision) {
	if a.populations == nil {
		return
	}
	passed := true
	for i := range charges {
		passed = passed && (decisions[i].Allowed || charges[i].rule.Shadow)
	}
	for i := range charges {
		c := &charges[i]
		counted := c.charge.CountsAlways() || passed && c.charge.Cost > 0 && decisions[i].Allowed
		if c.population != nil && counted && isCounted(&c.charge, &decisions[i]) {
			c.population.add(maphash.String(a.populations.seed, c.charge.Key), a.clock)
		}
	}
}

// isCounted reports whether an allowed charge was counted. What local mode counts is reported to the store after an outage.
func isCounted(c *limiter.Charge, d *limiter.Decision) bool {
	return d.Origin == limiter.OriginStore || c.OnStoreFailure == limiter.LocalOnFailure
}

func hasOverflow(charges []ruleCharge) bool {
	for i := range charges {
		if charges[i].sharedKey != "" {
			return true
		}
	}
	return false
}

// shareOverflow moves those charges of new identifiers of policies that are over the bound to the shared counters of the policies. One
// peek finds which identifiers are new. If it fails, all keep their counters: local mode has a bound of its own.
func (e *Engine) shareOverflow(ctx context.Context, active *active, charges []ruleCharge, peek bool) {
	var peeks []limiter.Charge
	isNew := map[string]bool{}
	for i := range charges {
		c := &charges[i]
		if _, peeked := isNew[c.charge.Key]; c.sharedKey == "" || peeked {
			continue
		}
		isNew[c.charge.Key] = false
		peeks = append(peeks, limiter.Charge{Key: c.charge.Key, Limit: c.charge.Limit, OnStoreFailure: limiter.AllowOnFailure})
	}
	decisions, err := e.store.Peek(ctx, peeks)
	if err != nil {
		return
	}
	for i, d := range decisions {
		isNew[peeks[i].Key] = d.ResetAfter == 0 && d.Origin == limiter.OriginStore
	}
	for i := range charges {
		if c := &charges[i]; c.sharedKey != "" && isNew[c.charge.Key] {
			e.share(active, c, peek)
		}
	}
}

// share moves the charge of a new identifier to the shared counter of its policy.
func (e *Engine) share(active *active, c *ruleCharge, peek bool) {
	c.charge.Key, c.population, c.charge.Lease = c.sharedKey, nil, nil
	if e.populations.bound.Deny && c.charge.Cost > 0 {
		c.charge.Cost, c.charge.Debt = 2*limiter.MaxUnits, false // above every limit
	}
	if !peek {
		active.counters.overflowed(c.rule)
	}
}
