package engine

import (
	"context"
	"slices"
)

// CheckAll decides several requests as one: when an enforced rule denies any of them, none is charged. The answers are in
// the order of checks, each with the results of its own; Allowed speaks of these alone. All checks peek, or none.
func (e *Engine) CheckAll(ctx context.Context, checks []Check) ([]Answer, error) {
	if len(checks) == 1 {
		answer, err := e.Check(ctx, &checks[0])
		if err != nil {
			return nil, err
		}
		return []Answer{answer}, nil
	}
	now := e.inForce.Load()
	if now == nil {
		return nil, ErrNoRules
	}
	parts := make([][]subject, len(checks))
	var together []subject
	for i := range checks {
		parts[i] = now.identify(nil, &checks[i])
		together = merge(together, parts[i])
	}
	byKey := make(map[string]Result, len(together))
	if len(together) > 0 {
		results, err := e.decide(ctx, now, together, checks[0].Peek, e.clock())
		if err != nil {
			return nil, err
		}
		for _, r := range results {
			byKey[r.Key] = r
		}
	}
	return e.partition(now, checks, parts, byKey), nil
}

// merge adds the charges of more to those of together. Two on one counter become one.
func merge(together, more []subject) []subject {
	for _, s := range more {
		at := slices.IndexFunc(together, func(t subject) bool { return t.charge.Key == s.charge.Key })
		if at < 0 {
			together = append(together, s)
			continue
		}
		together[at].charge.Cost += s.charge.Cost
	}
	return together
}

// partition gives every check the results of its own subjects. A rule that denied from near, see decideApart, leaves the
// others unasked: then a check may have none.
func (e *Engine) partition(now *inForce, checks []Check, parts [][]subject, byKey map[string]Result) []Answer {
	all := true
	for _, r := range byKey {
		all = all && (r.Allowed || r.Rule.Shadow)
	}
	answers := make([]Answer, len(checks))
	for i, subjects := range parts {
		var results []Result
		for j := range subjects {
			if r, decided := byKey[subjects[j].charge.Key]; decided {
				results = append(results, r)
			}
		}
		if len(results) == 0 {
			if len(subjects) == 0 {
				e.metrics.unmatched()
			}
			answers[i] = now.unlimited()
			continue
		}
		answers[i] = now.answer(results)
		e.tell(now, &answers[i], all, checks[i].Peek)
	}
	return answers
}
