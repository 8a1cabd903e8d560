package engine

import (
	"context"
	"slices"
)

// CheckAll decides several requests as one: when an enforced rule denies any of them, no request is charged. The answers are in the
// order of checks. Each has the results of its own request, and its Allowed depends on these alone. Peek must be the same in all
// checks.
func (e *Engine) CheckAll(ctx context.Context, checks []Check) ([]Answer, error) {
	if len(checks) == 0 {
		return nil, nil
	}
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
	for i := range checks {
		matched[i] = active.match(nil, &checks[i])
	}
	peek, began := checks[0].Peek, e.clock()
	all := mergeAll(matched)
	results := e.fromLeases(all, peek, began)
	if len(results) == 0 {
		results = active.knownDenials(all, peek, began)
	}
	if len(results) == 0 && slices.ContainsFunc(matched, hasOverflow) {
		e.shareOverflow(ctx, active, matched, peek)
		all = mergeAll(matched)
		results = active.knownDenials(all, peek, began)
	}
	if len(results) == 0 && len(all) > 0 {
		var err error
		if results, err = e.spend(ctx, active, all, peek, began); err != nil {
			return nil, err
		}
	}
	return e.answers(active, checks, matched, results), nil
}

// mergeAll returns the charges of all requests. Charges on one counter become one.
func mergeAll(matched [][]ruleCharge) []ruleCharge {
	n := 0
	for i := range matched {
		n += len(matched[i])
	}
	all := make([]ruleCharge, 0, n)
	for i := range matched {
		all = merge(all, matched[i])
	}
	return all
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
func (e *Engine) answers(active *active, checks []Check, matched [][]ruleCharge, decided []Result) []Answer {
	charged := true
	for i := range decided {
		charged = charged && (decided[i].Allowed || decided[i].Rule.Shadow)
	}
	answers := make([]Answer, len(checks))
	for i, charges := range matched {
		var results []Result
		for j := range charges {
			at := slices.IndexFunc(decided, func(r Result) bool { return r.Key == charges[j].charge.Key })
			if at >= 0 {
				results = append(results, decided[at])
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
