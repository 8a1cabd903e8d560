package rules

import (
	"math"
	"slices"
)

// MaxPoliciesPerRequest is the number of policies of a namespace, and of cluster policies, that one request is charged to. Each is a counter in
// Redis, and the script that decides a request holds up all other requests. So a tenant must not choose their number.
const MaxPoliciesPerRequest = 32

// Bounded returns the rules of matched that a request is charged to, at most MaxPoliciesPerRequest of a namespace and as many
// of the cluster policies, and those that are left out. The oldest policies stay: see [Set.ByAge]. Both parts remain sorted by policy.
// It overwrites matched.
func Bounded(matched []Matched) (kept, leftOut []Matched) {
	youngest := func(ofCluster bool) int32 { // that is kept
		var ages []int32
		for i := range matched {
			if rule := matched[i].Rule; (rule.Domain == "") == ofCluster {
				ages = append(ages, rule.age)
			}
		}
		if len(ages) <= MaxPoliciesPerRequest {
			return math.MaxInt32
		}
		slices.Sort(ages)
		return ages[MaxPoliciesPerRequest-1]
	}
	cluster, namespaced := youngest(true), youngest(false)
	kept = matched[:0]
	for _, m := range matched {
		most := namespaced
		if m.Rule.Domain == "" {
			most = cluster
		}
		if m.Rule.age <= most {
			kept = append(kept, m)
		} else {
			leftOut = append(leftOut, m)
		}
	}
	return kept, leftOut
}

// setAges sets the age of each rule: its position in Set.ByAge, or else in the order of names behind those that are listed.
func (x *Index) setAges(byAge map[string][]string) {
	for i := range x.rules {
		x.rules[i].age = int32(len(x.rules) + i)
	}
	for namespace, names := range byAge {
		for age, name := range names {
			if rule, found := x.find(namespace + "/" + name); found {
				rule.age = int32(age)
			}
		}
	}
}
