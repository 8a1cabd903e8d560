package replay

import (
	"reflect"
	"slices"
	"strings"

	"github.com/weir-dev/weir/internal/replay/result"
	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/rules/matching"
)

// comparison compares the decisions of two sides.
type comparison struct {
	before, after             *side
	newlyDenied, newlyAllowed int64
	denied, allowed           map[*matching.Compiled]*affected // by the rule that denies: after, and before
}

// affected counts the requests of each identifier that are decided in another way.
type affected struct {
	counts      []uint32 // by entry
	identifiers int64
	requests    int64
	top         *top
}

func newComparison(before, after *side) *comparison {
	return &comparison{before: before, after: after, denied: map[*matching.Compiled]*affected{}, allowed: map[*matching.Compiled]*affected{}}
}

func (c *comparison) compare(before, after *outcome) {
	switch {
	case before.allowed && !after.allowed:
		c.newlyDenied++
		add(c.denied, after)
	case !before.allowed && after.allowed:
		c.newlyAllowed++
		add(c.allowed, before)
	}
}

// add counts a request for each enforced rule that denies it.
func add(to map[*matching.Compiled]*affected, o *outcome) {
	for i := range o.decisions {
		rule := o.plan.Rule(o.begin + i)
		if d := &o.decisions[i]; d.Allowed || d.Origin == limiter.Undecided || rule.Shadow {
			continue
		}
		a := to[rule]
		if a == nil {
			a = &affected{top: newTop()}
			to[rule] = a
		}
		number := o.slots[i].Number
		for len(a.counts) <= number {
			a.counts = append(a.counts, make([]uint32, max(1024, len(a.counts)/4))...)
		}
		if a.counts[number] == 0 {
			a.identifiers++
		}
		a.counts[number]++
		a.requests++
		a.top.set(number, a.counts[number], o.plan.Identifier(o.begin+i))
	}
}

// difference returns the result.
func (c *comparison) difference() *result.Difference {
	d := &result.Difference{Before: c.before.total, NewlyDenied: c.newlyDenied, NewlyAllowed: c.newlyAllowed}
	names := map[string]bool{}
	for _, s := range []*side{c.before, c.after} {
		for _, t := range s.order {
			names[t.rule.Policy] = true
		}
	}
	for name := range names {
		d.Policies = append(d.Policies, c.policy(name))
	}
	slices.SortFunc(d.Policies, func(a, b result.PolicyDifference) int { return strings.Compare(a.Name, b.Name) })
	d.TopDenied, d.TopAllowed = topOf(c.denied), topOf(c.allowed)
	return d
}

func (c *comparison) policy(name string) result.PolicyDifference {
	p := result.PolicyDifference{Name: name}
	before, wasThere := c.before.index.RuleOf(name)
	after, isThere := c.after.index.RuleOf(name)
	switch {
	case !wasThere:
		p.Change = result.Added
	case !isThere:
		p.Change = result.Removed
	case reflect.DeepEqual(before.Rule, after.Rule):
		p.Change = result.Unchanged
	default:
		p.Change = result.Changed
	}
	if wasThere {
		p.DeniedBefore = c.before.tallies[before].denied
		if a := c.allowed[before]; a != nil {
			p.NewlyAllowed, p.IdentifiersAllowed = a.requests, a.identifiers
		}
	}
	if isThere {
		p.Denied = c.after.tallies[after].denied
		if a := c.denied[after]; a != nil {
			p.NewlyDenied, p.IdentifiersDenied = a.requests, a.identifiers
		}
	}
	return p
}

// topOf returns the identifiers with the most requests of all rules.
func topOf(of map[*matching.Compiled]*affected) (list []result.Affected) {
	for rule, a := range of {
		for _, item := range a.top.sorted() {
			list = append(list, result.Affected{Policy: rule.Policy, Identifier: item.identifier, Requests: int64(item.count)})
		}
	}
	slices.SortFunc(list, func(a, b result.Affected) int {
		switch {
		case a.Requests != b.Requests:
			return int(b.Requests - a.Requests)
		case a.Policy != b.Policy:
			return strings.Compare(a.Policy, b.Policy)
		default:
			return strings.Compare(a.Identifier, b.Identifier)
		}
	})
	return list[:min(len(list), maxTop)]
}
