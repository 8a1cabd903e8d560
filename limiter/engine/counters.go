package engine

import (
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/rules/matching"
)

// counters are the Prometheus counters of the active rule set, by rule.
type counters struct {
	metrics *Metrics
	active  func() *matching.Index
	byRule  sync.Map // *matching.Compiled → *ruleCounters

	adding sync.Mutex // is held while a rule is added to byRule, or forgotten
	first  firstDecisions
}

// ruleCounters are the Prometheus counters of one rule. To find them by their labels on every request would take longer than
// to deny a known denial. Each is created when it first counts.
type ruleCounters struct {
	tiers        []tierCounters // as the rule has them, or one that they share, and last those of its own limit
	sharesTiers  bool
	shadowDenied counter
	noIdentifier [reasons]counter
	overflow     counter
	leftOut      counter
	bypass       counter
	uncertain    counter
	hasDecided   atomic.Bool // it is among the firstDecisions, or was
}

// tierCounters are the counters of one tier of a rule.
type tierCounters struct {
	decided     [outcomes]counter // by the store
	locally     [outcomes]counter // while the store was unavailable
	knownDenied counter
	leased      counter
	unlimited   counter
	blocked     counter // by a limit of 0
	nearLimit   counter
}

// tier returns the counters of a tier of the rule, by its name, and those of the limit of the rule if the name is empty.
func (c *ruleCounters) tier(rule *matching.Compiled, name string) *tierCounters {
	last := len(c.tiers) - 1
	if name != "" {
		if c.sharesTiers {
			return &c.tiers[0]
		}
		for i := range rule.Tiers[:last] {
			if rule.Tiers[i].Name == name {
				return &c.tiers[i]
			}
		}
	}
	return &c.tiers[last]
}

// tierLabel returns the label of a tier of the rule, or of its own limit if the name is empty.
func (c *ruleCounters) tierLabel(name string) string {
	if name != "" && c.sharesTiers {
		return otherTiers
	}
	return name
}

// counter is a prometheus.Counter, found when it is first needed.
type counter struct {
	found atomic.Pointer[prometheus.Counter]
}

func (c *counter) inc(find func() prometheus.Counter) {
	found := c.found.Load()
	if found == nil {
		first := find()
		found = &first
		c.found.Store(found)
	}
	(*found).Inc()
}

// outcome is the result of a request under one rule.
type outcome int

const (
	allowed outcome = iota
	denied
	uncharged // another rule denied
	outcomes
)

func (o outcome) String() string { return [outcomes]string{"allowed", "denied", "uncharged"}[o] }

func outcomeOf(r *Result, charged bool) outcome {
	switch {
	case !r.Allowed:
		return denied
	case !charged && !r.Rule.Debt:
		return uncharged
	default:
		return allowed
	}
}

func (c *counters) forRule(rule *matching.Compiled) *ruleCounters {
	if found, ok := c.byRule.Load(rule); ok {
		return found.(*ruleCounters) //nolint:forcetypeassert // all its values have this type
	}
	return c.add(rule)
}

// add returns the counters of a rule that has not counted yet. Those of a rule that was replaced meanwhile are not kept: it counts for one request.
func (c *counters) add(rule *matching.Compiled) *ruleCounters {
	c.adding.Lock()
	defer c.adding.Unlock()
	index, tiers := c.active(), len(rule.Tiers)
	sharesTiers := index.SharesTierSeries(rule)
	if sharesTiers {
		tiers = 1
	}
	added := &ruleCounters{tiers: make([]tierCounters, tiers+1), sharesTiers: sharesTiers}
	if current, _ := index.RuleOf(rule.Policy); current != rule {
		added.hasDecided.Store(true) // decidedUnderReplacedRules notes it if it matters
		return added
	}
	found, _ := c.byRule.LoadOrStore(rule, added)
	return found.(*ruleCounters) //nolint:forcetypeassert // all its values have this type
}

// forget drops the counters of the rules that have changed.
func (c *counters) forget(changes []matching.Change) {
	c.adding.Lock()
	defer c.adding.Unlock()
	for _, change := range changes {
		if change.Old != nil {
			c.byRule.Delete(change.Old)
		}
	}
}

func (c *tierCounters) decision(source Source, o outcome) *counter {
	switch source {
	case SourceCache:
		return &c.knownDenied
	case SourceLease:
		return &c.leased
	case SourceLocal:
		return &c.locally[o]
	case SourceNone:
		return &c.blocked
	default:
		return &c.decided[o]
	}
}

// decision returns the counter of the decisions of a rule with this tier and this result, which counts for the first time.
func (c *counters) decision(of *ruleCounters, rule *matching.Compiled, tier, result string, source Source) prometheus.Counter {
	if of.hasDecided.CompareAndSwap(false, true) {
		c.first.add(rule)
	}
	return c.metrics.decision(rule, of.tierLabel(tier), result, source)
}

// refused counts a request that a rule refuses because the store is unavailable.
func (c *counters) refused(r *ruleCharge) {
	ruleSeries := c.forRule(r.rule)
	ruleSeries.tier(r.rule, r.tier).decision(SourceLocal, denied).inc(func() prometheus.Counter {
		return c.decision(ruleSeries, r.rule, r.tier, denied.String(), SourceLocal)
	})
}

// reason is why a request has no identifier under a rule.
type reason int

const (
	missing reason = iota
	unreadable
	reasons
)

func (r reason) String() string { return [reasons]string{"missing", "unreadable"}[r] }

// withoutIdentifier counts a request without the rule's identifier.
func (c *counters) withoutIdentifier(rule *matching.Compiled, why reason) {
	c.forRule(rule).noIdentifier[why].inc(func() prometheus.Counter {
		return c.metrics.missingIDs.WithLabelValues(rule.Policy, rule.Axis, why.String())
	})
}

// unlimited counts a request to which an unlimited tier of the rule applies.
func (c *counters) unlimited(rule *matching.Compiled, tier string, peek bool) {
	if peek {
		return
	}
	ruleSeries := c.forRule(rule)
	ruleSeries.tier(rule, tier).unlimited.inc(func() prometheus.Counter {
		return c.decision(ruleSeries, rule, tier, unlimitedResult, SourceNone)
	})
}

// leftOut counts a request that the rule matched and was not charged to, because too many rules matched it.
func (c *counters) leftOut(rule *matching.Compiled) {
	c.forRule(rule).leftOut.inc(func() prometheus.Counter { return c.metrics.leftOut.WithLabelValues(rule.Policy) })
}

// uncertain counts a request that the rule matched because a condition could not be evaluated.
func (c *counters) uncertain(rule *matching.Compiled) {
	c.forRule(rule).uncertain.inc(func() prometheus.Counter { return c.metrics.uncertain.WithLabelValues(rule.Policy) })
}

// bypassed counts a request that the rule matched and did not count, because of a bypass.
func (c *counters) bypassed(rule *matching.Compiled) {
	c.forRule(rule).bypass.inc(func() prometheus.Counter { return c.metrics.bypassed.WithLabelValues(rule.Policy) })
}

// decided counts the results of an answer. The argument charged reports whether the request was charged.
func (c *counters) decided(a *Answer, charged bool) {
	for i := range a.Results {
		r := &a.Results[i]
		rule, ruleSeries, outcome := r.Rule, c.forRule(r.Rule), outcomeOf(r, charged)
		if r.Shared {
			ruleSeries.overflow.inc(func() prometheus.Counter { return c.metrics.overflow.WithLabelValues(rule.Policy) })
		}
		tier := ruleSeries.tier(rule, r.Tier)
		tier.decision(r.Source, outcome).inc(func() prometheus.Counter {
			return c.decision(ruleSeries, rule, r.Tier, outcome.String(), r.Source)
		})
		if outcome == allowed && isNearLimit(&r.Decision) {
			tier.nearLimit.inc(func() prometheus.Counter {
				return c.metrics.nearLimit.WithLabelValues(rule.Policy, ruleSeries.tierLabel(r.Tier))
			})
		}
		if rule.Shadow && outcome == denied {
			ruleSeries.shadowDenied.inc(func() prometheus.Counter {
				return c.metrics.shadowDenials.WithLabelValues(rule.Policy)
			})
		}
	}
}

// nearLimitDivisor is the part of the limit, as a divisor, below which the remaining units are near the limit.
const nearLimitDivisor = 5

// isNearLimit reports whether less than a fifth of the limit remains after an allowed request.
func isNearLimit(d *limiter.Decision) bool { return d.Remaining*nearLimitDivisor < d.Limit }
