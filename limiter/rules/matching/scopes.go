package matching

import (
	"cmp"
	"iter"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/weir-dev/weir/limiter/persistent"
	"github.com/weir-dev/weir/limiter/rules/policyname"
)

// MaxTierSeries is the number of tiers of a namespace, and of cluster policies, that have series of their own in metrics. It is what
// MaxPoliciesPerRequest policies can have.
const MaxTierSeries = MaxPoliciesPerRequest * 16

// scopes has what the rules of a namespace, or the cluster policies, have together, by the scope of their names. What belongs to one rule depends on
// the others, so it is not part of the Compiled: indexes share it.
type scopes struct {
	ages  persistent.Map[string, map[string]int32] // of the rules in rules.Set.ByAge, by name; the oldest is the lowest
	tiers persistent.Map[string, int]              // their number
	// sharing has the rules whose tiers share series, of scopes with more than MaxTierSeries tiers.
	sharing persistent.Map[string, *map[string]bool]
}

// unknownAge is the age of a rule that is not in rules.Set.ByAge. Such rules are younger than all others.
const unknownAge = math.MaxInt32

// ageOf returns the position of a rule in rules.Set.ByAge.
func (s *scopes) ageOf(c *Compiled) int32 {
	scope, name := policyname.Split(c.Policy)
	if age, listed := s.ages.Get(scope)[name]; listed {
		return age
	}
	return unknownAge
}

// SharesTierSeries reports whether the tiers of a rule of x share one series of each metric, see MaxTierSeries.
func (x *Index) SharesTierSeries(c *Compiled) bool {
	if x.scopes.sharing.Len() == 0 {
		return false
	}
	scope, _ := policyname.Split(c.Policy)
	sharing := x.scopes.sharing.Get(scope)
	return sharing != nil && (*sharing)[c.Policy]
}

// relabeled yields the policies that share tier series in one of the indexes alone.
func (s *scopes) relabeled(previous *scopes) iter.Seq[string] {
	return func(yield func(string) bool) {
		policies := map[string]bool{}
		for _, differ := range [][2]*scopes{{s, previous}, {previous, s}} {
			for scope := range differ[0].sharing.Keys() {
				own, others := differ[0].sharing.Get(scope), differ[1].sharing.Get(scope)
				if own == others {
					continue
				}
				for policy := range *own {
					if others == nil || !(*others)[policy] {
						policies[policy] = true
					}
				}
			}
		}
		maps.Keys(policies)(yield)
	}
}

func (x *Index) updateScopes(previous *Index, changed []changedShard) error {
	touched := map[string]bool{}
	for _, shard := range changed {
		for scope := range shard.before.ByAge {
			if _, kept := shard.after.ByAge[scope]; !kept {
				x.scopes.ages.Delete(x.version, scope)
				touched[scope] = true
			}
		}
	}
	for _, shard := range changed {
		for scope, names := range shard.after.ByAge {
			if before, found := shard.before.ByAge[scope]; found && slices.Equal(before, names) {
				continue
			}
			ages := make(map[string]int32, len(names))
			for age, name := range names {
				ages[name] = int32(age)
			}
			x.scopes.ages.Set(x.version, scope, ages)
			touched[scope] = true
		}
	}
	added := map[string]int{} // tiers, by policy
	for before, after := range persistent.Changes(&previous.rules, &x.rules, compareRules) {
		if before != nil {
			added[before.Policy] -= len(before.tiers)
		}
		if after != nil {
			added[after.Policy] += len(after.tiers)
		}
	}
	for policy, n := range added {
		if n == 0 {
			continue
		}
		scope, _ := policyname.Split(policy)
		touched[scope] = true
		if n += x.scopes.tiers.Get(scope); n > 0 {
			x.scopes.tiers.Set(x.version, scope, n)
		} else {
			x.scopes.tiers.Delete(x.version, scope)
		}
	}
	for scope := range touched {
		x.boundTierSeries(scope)
	}
	return nil
}

// rulesOf yields the rules of a scope, in no particular order.
func (x *Index) rulesOf(scope string) iter.Seq[*Compiled] {
	return func(yield func(*Compiled) bool) {
		if c, found := x.RuleOf(scope); found && !yield(c) { // a Go program can write a name without scope
			return
		}
		prefix := policyname.Join(scope, "")
		for c := range x.rules.From(func(c *Compiled) int { return strings.Compare(c.Policy, prefix) }) {
			if !strings.HasPrefix(c.Policy, prefix) || !yield(c) {
				return
			}
		}
	}
}

// boundTierSeries finds the rules of a scope whose tiers, with those of the older rules, exceed MaxTierSeries. So a new policy never takes the series
// of an older one.
func (x *Index) boundTierSeries(scope string) {
	tiers := x.scopes.tiers.Get(scope)
	if tiers <= MaxTierSeries {
		x.scopes.sharing.Delete(x.version, scope)
		return
	}
	var tiered []*Compiled
	for c := range x.rulesOf(scope) {
		if len(c.tiers) > 0 {
			tiered = append(tiered, c)
		}
	}
	slices.SortFunc(tiered, func(a, b *Compiled) int {
		return cmp.Or(cmp.Compare(x.scopes.ageOf(b), x.scopes.ageOf(a)), compareRules(b, a))
	})
	sharing := map[string]bool{}
	for _, youngest := range tiered {
		if tiers > MaxTierSeries {
			sharing[youngest.Policy] = true
		}
		tiers -= len(youngest.tiers)
	}
	x.scopes.sharing.Set(x.version, scope, &sharing)
}
