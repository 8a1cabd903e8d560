package engine

import (
	"context"
	"slices"
)

// CheckAll decides several requests as one: when an enforced rule denies any of them, no request is charged. The answers are in the
// order of checks. Each has the results of its own request, and its Allowed depends on these alone. Peek must be the same in all
// checks.
func (e *Engine) CheckAll(ctx context.Context, checks []Check) ([]Answer, error) {
	if len(checks) == 1 {
		answer, err := e.Check(ctx, &checks[0])
		if err != nil {
			return nil, err
		}
		return []Answer{answer}, nil
	}
	active := e.active.Load()
	if active == nil {
		return nil, ErrNoRules
	}
	matched := make([][]ruleCharge, len(checks))
	var all []ruleCharge
	for i := range checks {
		matched[i] = active.match(nil, &checks[i])
	}
	if slices.ContainsFunc(matched, hasOverflow) {
		e.shareOverflow(ctx, active, matched, checks[0].Peek)
	}
	for i := range matched {
		all = merge(all, matched[i])
	}
	byKey := make(map[string]Result, len(all))
	if len(all) > 0 {
		results, err := e.spend(ctx, active, all, checks[0].Peek, e.clock())
		if err != nil {
			return nil, err
		}
		for _, r := range results {
			byKey[r.Key] = r
		}
	}
	return e.answers(active, checks, matched, byKey), nil
}

// merge adds the charges of more to all. Two charges on one counter become one.
func merge(all, more []ruleCharge) []ruleCharge {
	for _, r := range more {
		at := slices.IndexFunc(all, func(other ruleCharge) bool { return other.charge.Key == r.charge.Key })
		if at < 0 {
			all = append(all, r)
			continue
		}
		all[at].charge.Cost += r.charge.Cost
	}
	return all
}

// answers gives every check the results of its own rules. A check may have no results, see [Answer.Results].
func (e *Engine) answers(active *active, checks []Check, matched [][]ruleCharge, byKey map[string]Result) []Answer {
	charged := true
	for _, r := range byKey {
		charged = charged && (r.Allowed || r.Rule.Shadow)
	}
	answers := make([]Answer, len(checks))
	for i, charges := range matched {
		var results []Result
		for j := range charges {
			if r, decided := byKey[charges[j].charge.Key]; decided {
				results = append(results, r)
			}
		}
		if len(results) == 0 {
			if len(charges) == 0 {
				e.metrics.unmatched()
			}
			answers[i] = active.unlimited()
			continue
		}
		answers[i] = active.answer(results)
		e.count(active, &answers[i], charged, checks[i].Peek)
	}
	return answers
}
