package engine

import (
	"bytes"
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

// exists reports whether the counter has counted.
func (c *counter) exists() bool { return c.found.Load() != nil }

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

// hasDecided reports whether a request was decided under the rule: charged, denied, or let pass by an unlimited tier. A request that a bypass
// lets pass is not decided.
func (c *ruleCounters) hasDecided() bool {
	for i := range c.tiers {
		t := &c.tiers[i]
		counts := t.knownDenied.exists() || t.leased.exists() || t.unlimited.exists() || t.blocked.exists()
		for o := range outcomes {
			counts = counts || t.decided[o].exists() || t.locally[o].exists()
		}
		if counts {
			return true
		}
	}
	return false
}

// hasDecided reports whether a rule of the active rule set has decided a request. A counter exists if it has counted one, so decisions cost nothing
// more. The caller holds swapping.
func (e *Engine) hasDecided(rule *matching.Compiled) bool {
	counted := rule.Counted()
	if e.decided[counted] {
		return true
	}
	if found, ok := e.counters.byRule.Load(rule); ok && found.(*ruleCounters).hasDecided() { //nolint:forcetypeassert // see forRule
		e.decided[counted] = true
		return true
	}
	return false
}

// noteDecided finds those of the replaced rules that have decided a request, before their counters are forgotten.
func (e *Engine) noteDecided(changes []matching.Change) {
	for _, change := range changes {
		if change.Old != nil {
			e.hasDecided(change.Old)
		}
	}
}

// Decided returns the revision of the active rule set, and a bitmap of the policies that have decided a request since the process started: bit i%8
// of byte i/8 stands for policy i in the order of their names, see matching.Index.Numbered. Zero bytes at the end are omitted. The bitmap is nil
// before the first Swap, and not nil after it. It reads all rules: call it about once a second.
func (e *Engine) Decided() (revision string, bitmap []byte) {
	e.swapping.Lock()
	defer e.swapping.Unlock()
	index := e.Index()
	if index == nil {
		return "", nil
	}
	bitmap = make([]byte, (index.Len()+7)/8)
	for number, rule := range index.Numbered() {
		if e.hasDecided(rule) {
			bitmap[number/8] |= 1 << (number % 8)
		}
	}
	return index.Revision(), bytes.TrimRight(bitmap, "\x00")
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

// refused counts a request that a rule refuses because the store is unavailable.
func (c *counters) refused(r *ruleCharge) {
	ruleSeries := c.forRule(r.rule)
	ruleSeries.tier(r.rule, r.tier).decision(SourceLocal, denied).inc(func() prometheus.Counter {
		return c.metrics.decision(r.rule, ruleSeries.tierLabel(r.tier), denied.String(), SourceLocal)
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
		return c.metrics.decision(rule, ruleSeries.tierLabel(tier), unlimitedResult, SourceNone)
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
			return c.metrics.decision(rule, ruleSeries.tierLabel(r.Tier), outcome.String(), r.Source)
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
