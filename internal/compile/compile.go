package compile

import (
	"cmp"
	"slices"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/rules"
)

// Policies are the policies to compile, and the namespaces of the cluster.
type Policies struct {
	Namespaced []v1alpha1.RateLimitPolicy
	Cluster    []v1alpha1.ClusterRateLimitPolicy
	// Namespaces of the cluster, in any order. Rules that read labels or tenants of namespaces use them.
	Namespaces []Namespace
}

// Namespace has the properties of a namespace that policies can depend on.
type Namespace struct {
	Name                string
	Labels, Annotations map[string]string
}

// Result is the result of compiling policies.
type Result struct {
	// Set is what limiters enforce. It has one rule for each valid policy, sorted by policy.
	Set rules.Set
	// Problems lists why the other policies are not enforced, sorted by policy, and for each policy in the order of its fields.
	Problems []Problem
	// Used is what the rules use of the budget.
	Used Usage
	// Overrides lists the policies that have no effect because of another policy, sorted by policy and domain.
	Overrides []Override
}

// Problem is one reason why a policy is not enforced.
type Problem struct {
	Policy string `json:"policy"` // "namespace/name", or "cluster/name"
	// Cluster is true if the policy is a ClusterRateLimitPolicy. The name is not sufficient, because a namespace can have the name cluster.
	Cluster bool   `json:"cluster,omitempty"`
	Field   string `json:"field"`  // "spec.match.http.paths[0].value"
	Reason  string `json:"reason"` // a reason of the condition Accepted: v1alpha1.ReasonInvalid
	Message string `json:"message"`
}

// String returns "shop/tenant-daily: spec.limit: message".
func (p Problem) String() string { return p.Policy + ": " + p.Field + ": " + p.Message }

// Compile compiles the policies to rules, and returns the problems of each invalid policy. Policies without an identifier use the identity
// table. Policies that are being deleted are ignored. The Set contains only those properties of namespaces that its rules read.
func (p Policies) Compile(identity Identity) Result { return p.CompileWithin(identity, Budget{}) }

// CompileWithin is [Policies.Compile] for the policies that fit the budget. The others have a problem with v1alpha1.ReasonOverBudget.
func (p Policies) CompileWithin(identity Identity, budget Budget) Result {
	var result Result
	var all []compiled
	hashKey := identity.HashKey
	if hashKey == nil {
		hashKey = new(limiter.HashKey)
	}
	for _, same := range groupByName(p) {
		valid, found := validate(same)
		if len(found) > 0 {
			result.Problems = append(result.Problems, found...)
			continue
		}
		all = append(all, compiled{candidate: valid.candidate, rule: lower(valid, resolveIdentifier(valid, identity), hashKey)})
	}
	if budget == (Budget{}) {
		for i := range all {
			result.Set.Rules = append(result.Set.Rules, all[i].rule)
		}
	} else {
		var over []Problem
		result.Set.Rules, result.Used, over = budget.within(all)
		result.Problems = append(result.Problems, over...)
		slices.SortStableFunc(result.Problems, func(x, y Problem) int { return cmp.Compare(x.Policy, y.Policy) })
	}
	if identity.HashKey != nil && result.Set.HashesIdentifiers() {
		result.Set.HashKey = identity.HashKey.ID()
	}
	result.Set.ByAge = byAge(all, result.Set.Rules)
	result.Set.Namespaces = namespaceFacts(p.Namespaces, result.Set.Rules, identity)
	result.Overrides = overrides(result.Set.Rules)
	return result
}

// Compile is [Policies.Compile] for namespaced policies only. These never override each other.
func Compile(policies []v1alpha1.RateLimitPolicy, identity Identity) (rules.Set, []Problem) {
	result := Policies{Namespaced: policies}.Compile(identity)
	return result.Set, result.Problems
}
