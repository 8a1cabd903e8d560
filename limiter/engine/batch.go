package engine

import (
	"context"
	"slices"

	"github.com/weir-dev/weir/limiter/tracing"
)

// CheckAll decides several requests as one: when an enforced rule denies any of them, no request is charged. The answers are in the
// order of checks. Each has the results of its own request, and its Allowed depends on these alone. Peek, CountDebts and Alternative must
// be the same in all checks.
func (e *Engine) CheckAll(ctx context.Context, checks []Check) ([]Answer, error) {
	if len(checks) == 0 {
		return nil, nil
	}
	active := e.active.Load()
	if active == nil {
		return nil, ErrNoRules
	}
	s := e.borrow()
	defer func() {
		e.release(s)
		if e.Index() != active.index {
			e.dropReplaced(active.index, checks)
		}
	}()
	active.matchAll(ctx, s, checks)
	c := call{peek: checks[0].Peek, began: e.now()}
	charges := s.mergeCharges(checks[0].Alternative)
	decide := e.decide
	if checks[0].CountDebts && slices.ContainsFunc(charges, isDebt) {
		c.peek, decide = false, e.countDebts
	}
	results, err := decide(ctx, active, s, charges, c.peek)
	if err != nil {
		return nil, err
	}
	answers := e.answers(active, checks, c, s, results)
	if span := tracing.From(ctx); span != nil {
		traceStrictest(span, answers)
	}
	return answers, nil
}

// isDebt reports whether a charge is counted even if the request is denied.
func isDebt(c ruleCharge) bool { return c.charge.CountsAlways() }

// countDebts decides a request that is denied elsewhere: it counts the debts, and peeks at the other charges.
func (e *Engine) countDebts(ctx context.Context, active *active, s *scratch, charges []ruleCharge, _ bool) ([]Result, error) {
	isOther := func(c ruleCharge) bool { return !isDebt(c) }
	debts, err := e.decide(ctx, active, s, slices.DeleteFunc(slices.Clone(charges), isOther), false)
	if err != nil {
		return nil, err
	}
	others, err := e.decide(ctx, active, s, slices.DeleteFunc(slices.Clone(charges), isDebt), true)
	return append(debts, others...), err
}

// mergeCharges returns the charges of all requests. Charges on one counter become one, which is the highest of alternatives and else their sum, under
// the lowest of their limits.
func (s *scratch) mergeCharges(alternative bool) []ruleCharge {
	for i := range s.charged {
		if indexOfKey(s.charged[:i], s.charged[i].charge.Key) >= 0 {
			s.merged = merge(append(s.merged[:0], s.charged[:i]...), s.charged[i:], alternative)
			return s.merged
		}
	}
	return s.charged
}

// merge adds the charges of more to all: see mergeCharges.
func merge(charges, more []ruleCharge, alternative bool) []ruleCharge {
	for i := range more {
		index := indexOfKey(charges, more[i].charge.Key)
		if index < 0 {
			charges = append(charges, more[i])
			continue
		}
		c := &charges[index].charge
		if other := more[i].charge.Limit; other.Units() < c.Limit.Units() {
			c.Limit = other // of tiers, or of overrides
		}
		if alternative {
			c.Cost = max(c.Cost, more[i].charge.Cost)
		} else {
			c.Cost += more[i].charge.Cost
		}
	}
	return charges
}

func indexOfKey(charges []ruleCharge, key string) int {
	for i := range charges {
		if charges[i].charge.Key == key {
			return i
		}
	}
	return -1
}

// answers gives each of the checks the results of its own rules. A check may have no results, see [Answer.Results].
func (e *Engine) answers(active *active, checks []Check, call call, s *scratch, decided []Result) []Answer {
	call.charged = !checks[0].CountDebts
	for i := range decided {
		call.charged = call.charged && (decided[i].Allowed || decided[i].Rule.Shadow)
	}
	answers := make([]Answer, len(checks))
	inOrder := s.isInOrder(decided)
	for i := range answers {
		charges := s.request(i)
		var results []Result
		if inOrder {
			results, decided = decided[:len(charges):len(charges)], decided[len(charges):]
		} else {
			results = resultsOf(charges, decided)
		}
		if len(results) == 0 {
			if len(charges) == 0 {
				answers[i] = e.unlimited(active, s, i, &checks[i])
			} else {
				answers[i] = active.unlimited()
			}
			continue
		}
		answers[i] = active.answer(charges, results)
		answers[i].Bypassed = s.bypassedOf(i)
		e.count(active, &checks[i], &answers[i], call)
	}
	return answers
}

// isInOrder reports whether decided has one result for each charge of the requests, in their order, as if no charges were merged, and all
// of them were decided.
func (s *scratch) isInOrder(decided []Result) bool {
	if len(decided) != len(s.charged) {
		return false
	}
	for i := range decided {
		if decided[i].Key != s.charged[i].charge.Key {
			return false
		}
	}
	return true
}

// resultsOf returns the results of charges.
func resultsOf(charges []ruleCharge, decided []Result) (results []Result) {
	for i := range charges {
		key := charges[i].charge.Key
		if index := slices.IndexFunc(decided, func(r Result) bool { return r.Key == key }); index >= 0 {
			results = append(results, decided[index])
		}
	}
	return results
}
