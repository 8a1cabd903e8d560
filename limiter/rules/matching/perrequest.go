package matching

import "slices"

// MaxPoliciesPerRequest is the number of policies of one namespace, and of cluster policies, that one request is charged to. Each is a counter in
// Redis, and the script that decides a request holds up all other requests. So a tenant must not choose their number. A request matches policies of its
// domain, and of the namespaces of Gateways whose policies its route inherits: the compiler bounds these.
const MaxPoliciesPerRequest = 32

// Bounded returns the rules of matched that a request is charged to, at most MaxPoliciesPerRequest of each namespace and as many
// of the cluster policies, and those that are left out. Enforced policies stay before shadow policies, and then the oldest ones: see
// [rules.Set.ByAge]. Both parts remain sorted by policy. It overwrites matched.
func (x *Index) Bounded(matched []Matched) (kept, leftOut []Matched) {
	kept = matched[:0]
	for rest := matched; len(rest) > 0; { // sorted by policy, so that those of a namespace follow each other
		n := 1
		for n < len(rest) && rest[n].Rule.Domain == rest[0].Rule.Domain {
			n++
		}
		if n <= MaxPoliciesPerRequest {
			kept = append(kept, rest[:n]...)
		} else {
			ranks := x.ranksOf(rest[:n])
			last := slices.Sorted(slices.Values(ranks))[MaxPoliciesPerRequest-1]
			for i, m := range rest[:n] {
				if ranks[i] <= last {
					kept = append(kept, m)
				} else {
					leftOut = append(leftOut, m)
				}
			}
		}
		rest = rest[n:]
	}
	return kept, leftOut
}

// ranksOf returns the ranks of the matches of one namespace, sorted by policy: the highest are left out. An uncertain match ranks behind all certain
// ones, because a client can make the conditions of many policies too expensive to evaluate, and must not push out a younger policy in this way. One
// that no reading of the path certainly meets ranks behind those that a reading meets. A shadow policy limits nothing, so it is the first one that is
// left out.
func (x *Index) ranksOf(matched []Matched) []int64 {
	ranks := make([]int64, len(matched))
	unlisted := int64(0) // rules are in the order of their names behind those whose age is known
	for i, m := range matched {
		class := int64(m.certainty)
		if m.Rule.Shadow {
			class = int64(matchUnknown) + 1
		}
		age := int64(x.scopes.ageOf(m.Rule))
		if age == unknownAge {
			if i == 0 || matched[i-1].Rule != m.Rule {
				unlisted++
			}
			age += unlisted
		}
		ranks[i] = class<<33 | age
	}
	return ranks
}
