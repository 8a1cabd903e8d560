package engine

import (
	"context"
	"time"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/bypass"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/matching"
	"github.com/weir-dev/weir/limiter/tracing"
)

// ruleCharge is what one rule charges for a request.
type ruleCharge struct {
	rule       *matching.Compiled
	identifier string // as answers show it
	tier       string
	charge     limiter.Charge
	by         *bypass.Bypass // a block; nil if the limit decides
	wait       time.Duration  // until the end of the block
	// The place of the key in the keys of a keyless scratch.
	keyBegin, keyEnd int32
}

// matchAll appends the charges of all requests to those of s, and where those of each end.
func (a *active) matchAll(ctx context.Context, s *scratch, checks []Check) {
	for i := range checks {
		a.match(ctx, s, &checks[i])
		s.ends = append(s.ends, len(s.charged))
	}
}

// match appends the charge of every rule that limits the request of c to the charges of s.
func (a *active) match(ctx context.Context, s *scratch, c *Check) {
	if span := tracing.From(ctx); span != nil {
		defer a.traceMatch(span, s, c)()
	}
	matches := a.index.Match(s.matches[:0], &c.Request)
	s.matches = matches
	if len(matches) > matching.MaxPoliciesPerRequest {
		matches = a.bounded(matches, c.Peek)
	}
	matches = a.index.NameEndpoints(matches, c.Peek && !c.CountDebts)
	bypasses := a.bypasses.Active()
	identifier := ""
	for i := range matches {
		m := &matches[i]
		if m.Uncertain() && !c.Peek {
			a.counters.uncertain(m.Rule)
		}
		if i == 0 || !m.Rule.SharesIdentifier(matches[i-1].Rule) {
			identifier = m.Identify(&c.Request)
		}
		if bypasses != nil && a.isOverridden(s, bypasses, m, identifier, c) {
			continue
		}
		terms := m.Terms(&c.Request, identifier)
		if terms.Unlimited {
			a.counters.unlimited(m.Rule, terms.Tier, c.Peek)
			continue
		}
		r := s.add(m, identifier, &terms, c)
		if terms.Limit.Blocks() {
			r.block(m)
		} else {
			r.charge.Override = c.Override != nil && r.override(*m, *c.Override)
		}
		if r.charge.Override && c.Override.WithoutCost {
			r.charge.Cost = multiplied(1, c.Cost)
		}
		switch {
		case c.NoDelay:
			r.charge.Limit = r.charge.Limit.NoDelay()
		case c.MaxDelay > 0:
			r.charge.Limit = r.charge.Limit.WithMaxDelay(c.MaxDelay)
		}
		if identifier == "" {
			a.withoutIdentifier(r, *m, c)
		}
	}
}

// add appends the charge of a rule. It is filled where it is, because it is large.
func (s *scratch) add(m *matching.Matched, identifier string, terms *matching.Terms, c *Check) *ruleCharge {
	s.charged = append(s.charged, ruleCharge{})
	r := &s.charged[len(s.charged)-1]
	r.rule, r.identifier, r.tier = m.Rule, identifier, terms.Tier
	if s.keyless {
		r.keyBegin = int32(len(s.keys))
		s.keys = m.AppendKey(s.keys, identifier)
		r.keyEnd = int32(len(s.keys))
	} else {
		r.charge.Key = m.Key(identifier)
	}
	r.charge.Endpoint, r.charge.Placeholder = m.CountedEndpoint(), identifier == ""
	r.charge.Limit, r.charge.Cost = terms.Limit, multiplied(terms.Cost, c.Cost)
	r.charge.Debt, r.charge.Whole, r.charge.Shadow = m.Rule.Debt, m.Rule.WholeDebt, m.Rule.Shadow
	r.charge.OnStoreFailure, r.charge.WholeShare = onStoreFailure(m.Rule), m.Rule.LocalShare == rules.WholeShare
	r.charge.Lease, r.charge.Rule, r.charge.Alternative = m.Rule.Leases, m.Rule.Counted(), c.Alternative
	return r
}

// bounded returns the rules that a request is charged to if many match it, and counts those that are left out.
func (a *active) bounded(matches []matching.Matched, peek bool) []matching.Matched {
	kept, leftOut := a.index.Bounded(matches)
	for i := range leftOut {
		if !peek {
			a.counters.leftOut(leftOut[i].Rule)
		}
	}
	return kept
}

// withoutIdentifier makes the charge of a request whose identifier is missing or unreadable one on the counter that such requests share. A rule
// that denies such requests does not count them, nor their debts: the counter is empty.
func (a *active) withoutIdentifier(r *ruleCharge, m matching.Matched, c *Check) {
	reason := missing
	r.identifier = limiter.Missing
	if m.Unreadable(&c.Request) {
		reason = unreadable
		r.identifier = limiter.Unreadable
		if r.charge.Key == "" || r.charge.Key == m.Key("") {
			r.charge.Key = m.UnreadableKey()
		} else { // override has replaced it
			r.charge.Key = m.UnreadableKeyFor(r.charge.Limit)
		}
	}
	if m.Rule.OnMissing == rules.DenyMissing {
		r.deny()
	}
	if !c.Peek {
		a.counters.withoutIdentifier(m.Rule, reason)
	}
}

// onStoreFailure is the rule's OnStoreFailure as stores read it.
func onStoreFailure(rule *matching.Compiled) limiter.StoreFailure {
	switch rule.OnStoreFailure {
	case rules.AllowOnFailure:
		return limiter.AllowOnFailure
	case rules.DenyOnFailure:
		return limiter.DenyOnFailure
	default:
		return limiter.LocalOnFailure
	}
}

// multiplied is cost · times, at least 0. More units than any limit admits are bounded to an amount that no limit admits.
func multiplied(cost, times int64) int64 {
	const beyond = 2 * limiter.MaxUnits
	if times > 0 && cost > beyond/times {
		return beyond
	}
	return max(cost*times, 0)
}

// override replaces the limit by o, on the counter of overrides with this window. An invalid limit changes nothing: override then returns false.
func (r *ruleCharge) override(m matching.Matched, o Override) bool {
	limit, err := limiter.NewLimit(r.charge.Limit.Algorithm(), o.Units, o.Window)
	if err != nil || limit.Blocks() {
		return false
	}
	r.charge.Limit, r.charge.Key = limit, m.KeyFor(r.identifier, limit)
	return true
}

// block makes the charge one that is denied without a counter. Its key, which no counter has, keeps it apart from those of requests of the
// identifier that another tier counts.
func (r *ruleCharge) block(m *matching.Matched) {
	r.deny()
	r.charge.Key = m.KeyFor(r.identifier, r.charge.Limit)
}

// deny makes the charge one that is denied without a counter, and that counts no debt.
func (r *ruleCharge) deny() {
	r.charge.Deny, r.charge.Debt, r.charge.Whole, r.charge.Lease = true, false, false, nil
}

// denial is the decision about a charge that is denied without a counter.
func (r *ruleCharge) denial() *limiter.Decision {
	if r.by != nil {
		return &limiter.Decision{RetryAfter: r.wait, ResetAfter: r.wait}
	}
	return &limiter.Decision{Limit: r.charge.Limit.Units(), RetryAfter: limiter.Never}
}

// addResult appends the result of a decision about r to results.
func (r *ruleCharge) addResult(results []Result, d *limiter.Decision, source Source) []Result {
	results = append(results, Result{})
	result := &results[len(results)-1] // is filled where it is: a copy takes longer than to decide
	result.Rule, result.Identifier, result.Tier, result.Window = r.rule, r.identifier, r.tier, r.charge.Limit.Window()
	result.Source, result.Decision, result.Key = source, *d, r.charge.Key
	if r.charge.Deny && r.by == nil && !r.charge.Limit.Blocks() {
		result.Missing = r.rule.DescribeSources()
	}
	if most, bounded := r.charge.Limit.MaxDelay(); bounded && d.ResetAfter > most { // only a request that can wait can spend what remains
		result.Remaining = 0
	}
	return results
}
