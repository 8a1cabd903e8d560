package engine

import (
	"context"
	"errors"
	"slices"

	"github.com/weir-dev/weir/go/internal/limiter"
	"github.com/weir-dev/weir/go/internal/limiter/bypass"
	"github.com/weir-dev/weir/go/internal/limiter/rules/matching"
)

// Explanation is what Check would decide about a request, and the part of each policy in it.
type Explanation struct {
	// Answer is the answer of Check, with the figures before the request is counted. It is the zero Answer if the request is Refused.
	Answer Answer
	// Refused is the policy that refuses the request because the store is unavailable, or "".
	Refused string
	// Revision of the rules.
	Revision string
	// Policies are those of all rules, sorted by name.
	Policies []ExplainedPolicy
}

// ExplainedPolicy is the part of one policy in an Explanation. All fields except those of Explained are zero if the request is not charged to
// the policy.
type ExplainedPolicy struct {
	matching.Explained

	// Identifier as in [Result].
	Identifier string
	// Terms are the limit, the tier and the cost.
	Terms matching.Terms
	// Key of the counter; "" if an unlimited tier or a limit of 0 applies.
	Key string
	// Shared is true if the counter is the one that identifiers over the bound share.
	Shared bool
	// Used is the number of units that are spent on the counter.
	Used int64
	// Bypass lets the identifier pass the policy, or blocks it; nil without one. There is no counter then.
	Bypass *bypass.Bypass
	// Result is the decision under the policy; nil if an unlimited tier applies, or if the request was decided before.
	Result *Result
}

// Explain explains what Check would decide about c now. It spends nothing. It reads the counters with one peek, or two if identifiers are
// over the bound. A replica with a lease can admit a request that Explain reports as denied.
func (e *Engine) Explain(ctx context.Context, c Check) (Explanation, error) {
	active := e.active.Load()
	if active == nil {
		return Explanation{}, ErrNoRules
	}
	c.Peek = true
	x := Explanation{Answer: active.unlimited(), Revision: active.index.Revision()}
	memory := e.borrow()
	defer e.release(memory)
	active.match(ctx, memory, &c)
	charges := memory.charged
	x.Policies, x.Answer.Bypassed = active.explain(&c, memory), memory.bypassedOf(0)
	if len(charges) == 0 {
		return x, nil
	}
	results, err := e.decide(ctx, active, memory, charges, true)
	if refused, ok := errors.AsType[*RefusedError](err); ok {
		x.Answer, x.Refused = Answer{}, refused.Policy
	} else if err != nil {
		return Explanation{}, err
	}
	x.add(charges, results)
	if cached := e.cachedDenials(memory, charges, results); len(cached) > 0 {
		results, x.Refused = cached, "" // as Check does, which does not ask the counters then
	}
	if len(results) > 0 {
		x.Answer = active.answerBefore(charges, results)
		x.Answer.Bypassed = memory.bypassedOf(0)
	}
	return x, nil
}

// cachedDenials returns the results of a request that Check denies without asking the counters, nil if it asks. The results of a peek show which charges
// are on shared counters.
func (e *Engine) cachedDenials(s *scratch, charges []ruleCharge, peeked []Result) []Result {
	if _, isDenied := blocked(charges); isDenied {
		return slices.DeleteFunc(slices.Clone(peeked), func(r Result) bool {
			c := &charges[indexOfKey(charges, r.Key)].charge
			return !c.Deny && !c.CountsAlways()
		})
	}
	s.charges = s.charges[:0]
	for i := range charges {
		c := charges[i].charge
		if slices.ContainsFunc(peeked, func(r Result) bool { return r.Shared && r.Rule == charges[i].rule }) {
			c.Key = c.SharedKey()
		}
		s.charges = append(s.charges, c)
	}
	var results []Result
	for i, d := range e.layers.Known(s.charges) {
		if d.Origin != limiter.Undecided {
			d.Shared = s.charges[i].Key != charges[i].charge.Key
			results = charges[i].addResult(results, &d, SourceCache)
		}
	}
	return results
}

// answerBefore returns the answer of Check for the results of a peek, with their figures. Check orders the results by the figures after it
// has counted the request.
func (a *active) answerBefore(charges []ruleCharge, results []Result) Answer {
	isAllowed := !slices.ContainsFunc(results, func(r Result) bool { return !r.Allowed && !r.Rule.Shadow })
	counted := slices.Clone(results)
	for i := range counted {
		r := &counted[i]
		c := &charges[indexOfKey(charges, r.Key)]
		if r.Allowed && (isAllowed || c.charge.CountsAlways()) && c.charge.IsCounted(&r.Decision) {
			decision := c.charge.Counted(r.Decision)
			*r = c.addResult(nil, &decision, r.Source)[0]
		}
	}
	answer := a.answer(charges, counted)
	for i := range counted {
		index := slices.IndexFunc(results, func(r Result) bool { return r.Rule == counted[i].Rule })
		counted[i].Decision = results[index].Decision
	}
	return answer
}

// explain reports the part of each policy that does not depend on counters.
func (a *active) explain(c *Check, s *scratch) []ExplainedPolicy {
	found := a.index.Explain(&c.Request)
	policies := make([]ExplainedPolicy, len(found))
	for i := range found {
		p := &policies[i]
		p.Explained = found[i]
		if !p.Charged() {
			continue
		}
		p.Identifier = p.Matched.Identify(&c.Request)
		p.Terms = p.Matched.Terms(&c.Request, p.Identifier)
		for j := range s.bypassed {
			if s.bypassed[j].Rule == p.Rule {
				p.Identifier, p.Bypass = s.bypassed[j].Identifier, s.bypassed[j].By
			}
		}
		for j := range s.charged {
			if charge := &s.charged[j]; charge.rule == p.Rule {
				p.Identifier, p.Terms.Limit, p.Terms.Cost = charge.identifier, charge.charge.Limit, charge.charge.Cost
				if charge.by != nil {
					p.Bypass = charge.by
				}
			}
		}
	}
	return policies
}

// add adds the counters and the decisions about them.
func (x *Explanation) add(charges []ruleCharge, results []Result) {
	for i := range x.Policies {
		p := &x.Policies[i]
		for j := range charges {
			if c := &charges[j]; c.rule == p.Rule && !c.charge.Deny {
				p.Key = c.charge.Key
			}
		}
		for j := range results {
			if r := results[j]; r.Rule == p.Rule {
				if p.Shared = r.Shared; r.Shared {
					r.Key = charges[indexOfKey(charges, r.Key)].charge.SharedKey()
				}
				if p.Result, p.Used = &r, used(p.Terms.Limit, r.Decision); r.Source != SourceNone {
					p.Key = r.Key
				}
			}
		}
	}
}

// used returns the units that count under limit now.
func used(limit limiter.Limit, d limiter.Decision) int64 { return max(0, limit.Capacity()-d.Remaining) }
