package engine

import (
	"slices"
)

// unlimited is the answer to a request that no rule limits.
func (a *active) unlimited() Answer {
	return Answer{Allowed: true, Source: SourceNone, Revision: a.index.Revision()}
}

// answer is the answer to a request with at least one result, about one of its charges.
func (a *active) answer(charges []ruleCharge, results []Result) Answer {
	for i := range results {
		if r := &results[i]; r.Shared {
			r.Key = charges[indexOfKey(charges, r.Key)].charge.SharedKey()
		}
	}
	answer := Answer{Allowed: true, Source: results[0].Source, Results: results, Revision: a.index.Revision()}
	for i := range results {
		r := &results[i]
		if r.Source == SourceLocal {
			answer.Source = SourceLocal
		}
		if r.Rule.Shadow {
			continue
		}
		answer.Allowed = answer.Allowed && r.Allowed
		answer.Delay = max(answer.Delay, r.Delay)
	}
	if !answer.Allowed {
		answer.Delay = 0
	}
	slices.SortStableFunc(results, CompareResults)
	return answer
}
