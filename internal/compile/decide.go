package compile

import (
	"cmp"

	"github.com/weir-dev/weir/api/v1alpha1/policyapi"
	"github.com/weir-dev/weir/internal/compile/budget"
	"github.com/weir-dev/weir/internal/compile/gateway"
	"github.com/weir-dev/weir/internal/compile/lists"
)

// decideFor decides which of the changed policies have rules, if no other policy depends on them. It reports whether it did.
func (m *Memo) decideFor(gone, added []*entry, objects *gateway.Objects, limits budget.Budget) bool {
	d := &m.decided
	index := objects.IndexAfter(m.index)
	if !d.independent || d.limits != limits || index != m.index || previousRulesOf(objects) != nil {
		return false
	}
	for _, e := range gone {
		if !e.isIndependent() {
			return false
		}
	}
	for _, e := range added {
		if !e.isIndependent() {
			return false
		}
	}
	var removed, placed []*compiled
	for _, e := range gone {
		removed = append(removed, e.attached.compiled)
		charge := e.attached.charge(&e.Policy)
		d.fits.Remove(&charge)
	}
	for _, e := range added {
		m.attach(e, nil, nil)
		if e.attached.fit(d.fits, &e.Policy) != nil {
			return false
		}
		e.result = outcome{enforced: true}
		placed = append(placed, e.attached.compiled)
	}
	d.enforced = lists.Replace(d.enforced, removed, placed, func(a, b *compiled) int { return cmp.Compare(a.Policy, b.Policy) })
	m.ages.replace(d.enforced, removed, placed)
	m.set.replace(removed, placed)
	return true
}

// isIndependent reports whether the policy has no targets, and neither its name nor its counters are those of another one.
func (e *entry) isIndependent() bool {
	return len(e.invalid) == 0 && !e.targeted && !e.contested && e.sharing == 1
}

// decide decides which policies have rules.
func (m *Memo) decide(objects *gateway.Objects, limits budget.Budget, result *Result) {
	m.index = objects.IndexAfter(m.index)
	previous := previousRulesOf(objects)
	m.decided = decided{limits: limits, fits: limits.NewFitting()}
	m.lower(previous, m.decided.fits, result)
	m.collect()
	removed, placed := m.set.differences(m.decided.enforced, m.calls)
	m.ages.update(m.decided.enforced)
	m.set.replace(removed, placed)
	m.decided.independent = !m.decided.fits.Exceeded
}

// lower makes the rules of the valid policies that have a target, if they need one, and that fit the budget. The others get a problem. It takes the
// policies in order of precedence: a policy without a rule must not conflict with a newer one.
func (m *Memo) lower(previous previousRules, fits *budget.Fitting, result *Result) {
	for _, e := range m.byAge {
		e.result = outcome{}
		if e.sharing > 1 {
			continue
		}
		if e.contested {
			if other := e.counter.holder(m.calls); other != "" {
				e.result.problems = []Problem{sharesCounters(&e.Policy, other)}
				continue
			}
		}
		a := &e.attached
		if e.targeted || a.compiled == nil {
			m.attach(e, previous, result)
		}
		e.result.attached = a.attachment != nil
		if len(a.problems) > 0 {
			e.result.problems = a.problems
			continue
		}
		if problem := a.fit(fits, &e.Policy); problem != nil {
			e.result.problems = []Problem{*problem}
			continue
		}
		if m.index != nil && a.attachment != nil {
			for i := range a.attachment.Targets {
				if a.attachment.Targets[i].Reason == policyapi.ReasonAccepted {
					e.places[i].call, e.places[i].by = m.calls, e.Name
				}
			}
		}
		if e.contested {
			e.counter.call, e.counter.by = m.calls, e.Name
		}
		e.result.enforced = true
	}
}

// collect sets the problems, the attachments and the policies with rules, in order of their names.
func (m *Memo) collect() {
	d := &m.decided
	var later []Problem
	d.enforced = make([]*compiled, 0, len(m.byAge))
	for i, e := range m.byName {
		switch {
		case e.sharing > 1 && i > 0 && compareNames(&m.byName[i-1].Policy, &e.Policy) == 0: // reported already
		case e.sharing > 1:
			d.problems = append(d.problems, sharesName(&e.Policy, e.sharing))
		default:
			d.problems = append(d.problems, e.invalid...)
			later = append(later, e.result.problems...)
			if e.result.attached {
				d.attachments = append(d.attachments, *e.attached.attachment)
			}
			if e.result.enforced {
				d.enforced = append(d.enforced, e.attached.compiled)
			}
		}
	}
	d.problems = append(d.problems, later...)
	lists.Stable(d.problems, func(x, y Problem) int { return cmp.Compare(x.Policy, y.Policy) })
}
