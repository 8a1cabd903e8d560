// Package bound bounds the live counters of each rule, and so the memory that clients can fill by inventing identifiers. New identifiers of a
// rule with too many counters share one, or are denied. docs/concepts/security.md has the reasons.
package bound

import (
	"hash/maphash"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-dev/weir/limiter"
)

// Identifiers is the bound of each rule. Identifiers that have a live counter keep it. See also [Counters.ObserveMemory].
type Identifiers struct {
	// Max is the number of live counters of a rule from which on new identifiers get no counter of their own. 0: there is no such number.
	Max int64
	// Deny denies new identifiers that get no counter. Otherwise they share one counter.
	Deny bool
}

// overrideClasses is the number of populations of a rule for limits that come with requests. Their windows are up to limiter.MaxWindow and
// chosen by callers, so limits whose counters have about the same lifetime share a population: that of class i is 2^i seconds.
const overrideClasses = 24

// ownLimit is the class of counters under the limits of the rule itself.
const ownLimit = overrideClasses

// classOf is the class of the counter of a charge.
func classOf(c *limiter.Charge) int {
	if !c.Override {
		return ownLimit
	}
	seconds := (c.Limit.LongestWait() + time.Second - 1) / time.Second
	return min(bits.Len64(uint64(max(seconds, 1)-1)), overrideClasses-1)
}

// Counters estimates the live counters of each rule that this replica has charged, with an error of 3 %. Limits that come with requests have
// bounds of their own. It is safe for concurrent use.
type Counters struct {
	bound Identifiers
	clock func() time.Time
	seed  maphash.Seed
	live  *prometheus.Desc
	rules sync.Map // *limiter.CountedRule → *ruleCounters

	mu      sync.Mutex
	active  map[*limiter.CountedRule]bool // the rules that there are; nil: unknown
	kept    map[string]int                // their number, by one of their keys: it contains the policy, the window and the algorithm
	byKeys  map[populationKey]*population
	crowded map[string]crowded // by policy
}

// ruleCounters are the populations of a rule, by class. Each is nil until it is first needed.
type ruleCounters [overrideClasses + 1]atomic.Pointer[population]

// populationKey identifies a population. It outlives a change of the rule, unless that begins new counters.
type populationKey struct {
	counters string // one key of the rule: it contains the policy, the window and the algorithm
	class    int
}

func countersOf(rule *limiter.CountedRule) string { return rule.Keys.SharedKey("") }

// New returns Counters that bound the live counters of each rule.
func New(bound Identifiers, clock func() time.Time) *Counters {
	return &Counters{
		bound: bound, clock: clock, seed: maphash.MakeSeed(), byKeys: map[populationKey]*population{}, crowded: map[string]crowded{},
		live: prometheus.NewDesc("weir_identifiers",
			"Estimated live counters by policy that this replica has charged. A counter is included for up to two lifetimes after its last "+
				"charge. Limits that come with requests are not included. Updated every 64 charged requests.", []string{"policy"}, nil),
	}
}

// population returns the population of the counter of a charge, nil if the counter is in no population.
func (p *Counters) population(c *limiter.Charge) *population {
	if c.Rule == nil || c.Placeholder {
		return nil
	}
	found, ok := p.rules.Load(c.Rule)
	if !ok {
		found = p.addRule(c.Rule)
	}
	class := classOf(c)
	cached := &found.(*ruleCounters)[class] //nolint:forcetypeassert // all its values have this type
	one := cached.Load()
	if one == nil {
		one = p.add(c.Rule, class)
		cached.Store(one)
	}
	return one
}

// addRule returns the populations of a rule that is not listed yet. Those of a rule that was removed meanwhile are not kept.
func (p *Counters) addRule(rule *limiter.CountedRule) any {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.active != nil && !p.active[rule] {
		return &ruleCounters{}
	}
	found, _ := p.rules.LoadOrStore(rule, &ruleCounters{})
	return found
}

// add returns the population of a rule's counters of a class.
func (p *Counters) add(rule *limiter.CountedRule, class int) *population {
	p.mu.Lock()
	defer p.mu.Unlock()
	longest := rule.Lifetime
	if class != ownLimit {
		longest = time.Second << class
	}
	key := populationKey{countersOf(rule), class}
	found, ok := p.byKeys[key]
	if !ok {
		found = newPopulation(p.bound.Max, p.clock())
		found.storage = storage{policy: rule.Policy, namespace: rule.Namespace, algorithm: rule.Algorithm, compact: rule.Compact}
		if p.active == nil || p.kept[key.counters] > 0 { // else the charge is one of a rule that was removed meanwhile
			p.byKeys[key] = found
		}
	}
	found.setLifetime(longest) // a change of a burst changes it, and keeps the counters
	return found
}

// Swap drops what belongs to removed rules, unless one of those that were added has the same counters. Call it for the first rules, and when the
// rules have changed.
func (p *Counters) Swap(removed, added []*limiter.CountedRule) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.active == nil {
		p.active, p.kept = map[*limiter.CountedRule]bool{}, map[string]int{}
	}
	policies := map[string]bool{}
	for _, rule := range added {
		p.active[rule], policies[rule.Policy] = true, true
		p.kept[countersOf(rule)]++
	}
	for _, rule := range removed {
		delete(p.active, rule)
		p.rules.Delete(rule)
		if !policies[rule.Policy] {
			delete(p.crowded, rule.Policy)
		}
		counters := countersOf(rule)
		if p.kept[counters]--; p.kept[counters] > 0 {
			continue
		}
		delete(p.kept, counters)
		for class := range ownLimit + 1 {
			delete(p.byKeys, populationKey{counters, class})
		}
	}
}

// Describe implements prometheus.Collector.
func (p *Counters) Describe(ch chan<- *prometheus.Desc) { ch <- p.live }

// Collect implements prometheus.Collector.
func (p *Counters) Collect(ch chan<- prometheus.Metric) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for key, one := range p.byKeys {
		if key.class == ownLimit {
			ch <- prometheus.MustNewConstMetric(p.live, prometheus.GaugeValue, one.estimate(), one.storage.policy)
		}
	}
}
