package compile

import (
	"cmp"
	"slices"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/limiter/rules"
)

// Problem is why a policy is not enforced.
type Problem struct {
	Policy  string `json:"policy"` // "namespace/name"
	Field   string `json:"field"`  // "spec.match.http.paths[0].value"
	Reason  string `json:"reason"` // a reason of the condition Accepted: v1alpha1.ReasonInvalid
	Message string `json:"message"`
}

// String reads "shop/tenant-daily: spec.limit: limit 0 is outside …".
func (p Problem) String() string { return p.Policy + ": " + p.Field + ": " + p.Message }

// Compile turns policies into what limiters enforce, and says why for each policy that cannot be. Policies that name no
// identifier take it from the identity table; policies that are being deleted are left out. Rules are sorted by
// policy; problems by policy, and within one in the order of its fields.
func Compile(policies []v1alpha1.RateLimitPolicy, identity Identity) (rules.Set, []Problem) {
	var set rules.Set
	var problems []Problem
	for _, same := range order(policies) {
		valid, found := validate(same)
		if len(found) > 0 {
			problems = append(problems, found...)
			continue
		}
		set.Rules = append(set.Rules, lower(valid, resolve(valid, identity)))
	}
	return set, problems
}

// Name is what a policy is called in rules, answers and problems: "namespace/name".
func Name(policy *v1alpha1.RateLimitPolicy) string { return policy.Namespace + "/" + policy.Name }

// order groups the policies that exist by name, sorted by name. A group has several only where names are not unique,
// which an API server rules out and a directory of files does not.
func order(policies []v1alpha1.RateLimitPolicy) [][]*v1alpha1.RateLimitPolicy {
	byName := map[string][]*v1alpha1.RateLimitPolicy{}
	for i := range policies {
		if p := &policies[i]; p.DeletionTimestamp == nil {
			byName[Name(p)] = append(byName[Name(p)], p)
		}
	}
	groups := make([][]*v1alpha1.RateLimitPolicy, 0, len(byName))
	for _, same := range byName {
		groups = append(groups, same)
	}
	slices.SortFunc(groups, func(a, b []*v1alpha1.RateLimitPolicy) int { return cmp.Compare(Name(a[0]), Name(b[0])) })
	return groups
}
