package matching

import (
	"cmp"
	"math"
	"slices"

	"github.com/weir-dev/weir/go/internal/limiter/rules/policyname"
)

// MaxPoliciesPerRequest is the number of policies of one namespace, and of cluster policies, that one request is charged to. Each is a counter in
// Redis, and the script that decides a request holds up all other requests. So a tenant must not choose their number. A request matches policies of its
// domain, and of the namespaces of Gateways whose policies its route inherits: the compiler bounds these.
const MaxPoliciesPerRequest = 32

// Bounded returns the rules of matched that a request is charged to, at most MaxPoliciesPerRequest of each namespace and as many
// of the cluster policies, and those that are left out. Enforced policies stay before shadow policies, and then the oldest ones: see
// [rules.Set.ByAge]. Both parts remain sorted by policy. It overwrites matched.
func Bounded(matched []Matched) (kept, leftOut []Matched) {
	kept = matched[:0]
	for rest := matched; len(rest) > 0; { // sorted by policy, so that those of a namespace follow each other
		n := 1
		for n < len(rest) && rest[n].Rule.Domain == rest[0].Rule.Domain {
			n++
		}
		last := lastRank(rest[:n])
		for _, m := range rest[:n] {
			if m.rank() <= last {
				kept = append(kept, m)
			} else {
				leftOut = append(leftOut, m)
			}
		}
		rest = rest[n:]
	}
	return kept, leftOut
}

// lastRank returns the highest rank that is kept among the matches of one namespace.
func lastRank(matched []Matched) int64 {
	if len(matched) <= MaxPoliciesPerRequest {
		return math.MaxInt64
	}
	ranks := make([]int64, len(matched))
	for i := range matched {
		ranks[i] = matched[i].rank()
	}
	slices.Sort(ranks)
	return ranks[MaxPoliciesPerRequest-1]
}

// rank orders the matches of a request: the highest are left out. An uncertain match ranks behind all certain ones, because a client can
// make the conditions of many policies too expensive to evaluate, and must not push out a younger policy in this way. One that no reading of the
// path certainly meets ranks behind those that a reading meets. A shadow policy limits nothing, so it is the first one that is left out.
func (m Matched) rank() int64 {
	class := int64(m.order & 3)
	if m.Rule.Shadow {
		class = int64(matchUnknown) + 1
	}
	return class<<32 | int64(m.Rule.age)
}

// setAges sets the age of each rule: its position in rules.Set.ByAge, or else in the order of names behind those that are listed.
func (x *Index) setAges(byAge map[string][]string) {
	for i := range x.rules {
		x.rules[i].age = int32(len(x.rules) + i)
	}
	for scope, names := range byAge {
		for age, name := range names {
			if rule, found := x.RuleOf(policyname.Join(scope, name)); found {
				rule.age = int32(age)
			}
		}
	}
}

// MaxTierSeries is the number of tiers of a namespace, and of cluster policies, that have series of their own in metrics. It is what
// MaxPoliciesPerRequest policies can have.
const MaxTierSeries = MaxPoliciesPerRequest * 16

// boundTierSeries sets SharesTierSeries of the rules whose tiers, with those of the older rules of their namespace, exceed MaxTierSeries. So a
// new policy never takes the series of an older one.
func (x *Index) boundTierSeries() {
	var first int // of the rules of a namespace, which follow each other
	for i := range x.rules {
		scope, _ := policyname.Split(x.rules[i].Policy)
		if i+1 < len(x.rules) {
			if next, _ := policyname.Split(x.rules[i+1].Policy); next == scope {
				continue
			}
		}
		boundTierSeriesOf(x.rules[first : i+1])
		first = i + 1
	}
}

// boundTierSeriesOf does this for the rules of one namespace.
func boundTierSeriesOf(compiled []Compiled) {
	var tiered []*Compiled
	tiers := 0
	for i := range compiled {
		if n := len(compiled[i].Tiers); n > 0 {
			tiered = append(tiered, &compiled[i])
			tiers += n
		}
	}
	if tiers <= MaxTierSeries {
		return
	}
	slices.SortFunc(tiered, func(a, b *Compiled) int { return cmp.Compare(b.age, a.age) })
	for _, youngest := range tiered {
		if tiers > MaxTierSeries {
			youngest.SharesTierSeries = true
		}
		tiers -= len(youngest.Tiers)
	}
}
