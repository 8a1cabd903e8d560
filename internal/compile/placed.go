package compile

import (
	"cmp"
	"slices"

	"github.com/weir-dev/weir/internal/compile/lists"
	"github.com/weir-dev/weir/internal/compile/redundancy"
	"github.com/weir-dev/weir/limiter/rules"
)

// placed are the policies with rules in the Set, and what their rules have in common. The zero value has no policies.
type placed struct {
	compiled []*compiled // in the order of their rules
	rules    []rules.Rule
	hashing  int // number of policies of which a rule hashes identifiers
	// special policies limit writes, or no request: what other objects have can change their results.
	special    []*compiled // in the order of their rules
	namespaces namespaceMemo
	overrides  redundancy.Comparison
}

func (p *placed) remembered() int { return len(p.compiled) + len(p.rules) + len(p.special) }

// compareRules is the order of rules.
func compareRules(a, b *compiled) int {
	return cmp.Or(cmp.Compare(a.Rules[0].Policy, b.Rules[0].Policy), compareBool(!a.Cluster, !b.Cluster))
}

// differences returns the policies that are not enforced any more, and those that are new. The number of the call is not that of an earlier one.
func (p *placed) differences(enforced []*compiled, call uint64) (removed, added []*compiled) {
	for _, c := range enforced {
		if c.call = call; !c.isPlaced {
			added = append(added, c)
		}
	}
	return lists.Filter(p.compiled, func(c *compiled) bool { return c.call != call }), added
}

// replace removes and adds policies.
func (p *placed) replace(removed, added []*compiled) {
	if len(removed)+len(added) == 0 {
		return
	}
	isSame := p.replaceRules(removed, added)
	p.compiled = lists.Replace(p.compiled, removed, added, compareRules)
	p.special = lists.Replace(p.special, lists.Filter(removed, (*compiled).isSpecial), lists.Filter(added, (*compiled).isSpecial), compareRules)
	var before, after []*redundancy.Policy
	for _, c := range removed {
		c.isPlaced, c.at = false, -1
		p.hashing -= count(c.hashes)
		before = append(before, c.overrides)
	}
	for _, c := range added {
		c.isPlaced = true
		p.hashing += count(c.hashes)
		after = append(after, c.overrides)
	}
	p.overrides.Replace(before, after)
	if !isSame {
		p.setRules()
	}
}

func count(is bool) int {
	if is {
		return 1
	}
	return 0
}

// replaceRules replaces the rules of one policy by as many of another version of it, and reports whether it did.
func (p *placed) replaceRules(removed, added []*compiled) bool {
	if len(removed) != 1 || len(added) != 1 || len(removed[0].Rules) != len(added[0].Rules) || removed[0].at < 0 || compareRules(removed[0], added[0]) != 0 {
		return false
	}
	added[0].at = removed[0].at
	copy(p.rules[added[0].at:], added[0].Rules)
	return true
}

// setRules sets the rules of all policies. It copies only those that are not at their place.
func (p *placed) setRules() {
	total := 0
	for _, c := range p.compiled {
		total += len(c.Rules)
	}
	if total == 0 {
		p.rules = nil
		return
	}
	if total < len(p.rules) {
		clear(p.rules[total:]) // they hold memory
	}
	p.rules = slices.Grow(p.rules[:min(total, len(p.rules))], max(0, total-len(p.rules)))[:total]
	at := 0
	for _, c := range p.compiled {
		if c.at != at {
			copy(p.rules[at:], c.Rules)
			c.at = at
		}
		at += len(c.Rules)
	}
}

func (p *placed) policies() []*Compiled {
	list := make([]*Compiled, len(p.compiled))
	for i, c := range p.compiled {
		list[i] = &c.Compiled
	}
	return list
}
