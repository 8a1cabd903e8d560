package matching

import (
	"iter"
	"strings"

	"github.com/weir-dev/weir/limiter/persistent"
)

// NumberOf returns the number of a policy, from 0, in the order of the names of policies, if there is one. The rates of a policy have the same. The order
// of rules is another one: "a:1d" is after "a-b".
func (x *Index) NumberOf(policy string) (number int, found bool) {
	return x.policies.Rank(comparePolicies(policy))
}

// Renumbered returns the numbers that the policies without rules in x have in the previous index, which can be nil, and the numbers in x of the policies
// that the previous index does not have. Both are in ascending order. Other policies keep their order.
func (x *Index) Renumbered(previous *Index) (removed, added []int) {
	if previous == nil {
		previous = &Index{}
	}
	compare := func(a, b *string) int { return strings.Compare(*a, *b) }
	for before, after := range persistent.Changes(&previous.policies, &x.policies, compare) {
		switch {
		case after == nil:
			number, _ := previous.NumberOf(*before)
			removed = append(removed, number)
		case before == nil:
			number, _ := x.NumberOf(*after)
			added = append(added, number)
		}
	}
	return removed, added
}

// RatesOf yields the rules of a policy: one, or one for each of its rates.
func (x *Index) RatesOf(policy string) iter.Seq[*Compiled] {
	return func(yield func(*Compiled) bool) {
		if c, found := x.RuleOf(policy); found && c.policyName == policy && !yield(c) {
			return
		}
		prefix := policy + ":"
		for c := range x.rules.From(func(c *Compiled) int { return strings.Compare(c.Policy, prefix) }) {
			if !strings.HasPrefix(c.Policy, prefix) || c.policyName == policy && !yield(c) {
				return
			}
		}
	}
}

func (x *Index) hasPolicy(name string) bool {
	for range x.RatesOf(name) {
		return true
	}
	return false
}

func comparePolicies(name string) func(*string) int {
	return func(other *string) int { return strings.Compare(*other, name) }
}
