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
	// Gateways are the possible targets of policies. If nil, they are unknown: each route that a policy targets is assumed to exist, and a
	// policy that targets a Gateway limits no requests.
	Gateways *Gateways
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
	// Attachments has the targets of each valid policy with spec.targetRefs, sorted by policy.
	Attachments []Attachment
	// Kept has the policies that keep their previous rules: see [Gateways.Unreadable].
	Kept []Kept
}

// Kept is a policy that keeps its previous rule.
type Kept struct {
	Policy  string
	Cluster bool
	// Outdated is true if the policy has another rule now.
	Outdated bool
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
	policies := result.validate(p)
	targets, previous := p.Gateways.index().attach(policies), p.Gateways.previous()
	for i, valid := range policies {
		rule := lower(valid, resolveIdentifier(valid, identity), hashKey)
		if kept, outdated := previous.of(valid, rule); kept != nil && len(targets[i]) > 0 {
			all = append(all, compiled{candidate: valid.candidate, rule: *kept})
			result.Kept = append(result.Kept, Kept{valid.name, valid.cluster != nil, outdated})
			continue
		}
		if len(targets[i]) > 0 {
			a := Attachment{Policy: valid.name, Cluster: valid.cluster != nil, Targets: targets[i]}
			result.Attachments = append(result.Attachments, a)
			if problems := a.problems(); len(problems) > 0 {
				result.Problems = append(result.Problems, problems...)
				continue
			}
			a.apply(&rule)
		}
		all = append(all, compiled{candidate: valid.candidate, rule: rule})
	}
	if budget == (Budget{}) {
		for i := range all {
			result.Set.Rules = append(result.Set.Rules, all[i].rule)
		}
	} else {
		var over []Problem
		result.Set.Rules, result.Used, over = budget.within(all)
		result.Problems = append(result.Problems, over...)
	}
	slices.SortStableFunc(result.Problems, func(x, y Problem) int { return cmp.Compare(x.Policy, y.Policy) })
	if identity.HashKey != nil && result.Set.HashesIdentifiers() {
		result.Set.HashKey = identity.HashKey.ID()
	}
	result.Set.ByAge = byAge(all, result.Set.Rules)
	result.Set.Namespaces = namespaceFacts(p.Namespaces, result.Set.Rules, identity)
	result.Overrides = overrides(result.Set.Rules)
	return result
}

// validate returns the valid policies, sorted by name, and adds the problems of the others to the result.
func (r *Result) validate(p Policies) (policies []validPolicy) {
	for _, same := range groupByName(p) {
		valid, found := validate(same)
		r.Problems = append(r.Problems, found...)
		if len(found) == 0 {
			policies = append(policies, valid)
		}
	}
	return policies
}

// Compile is [Policies.Compile] for namespaced policies only. These never override each other.
func Compile(policies []v1alpha1.RateLimitPolicy, identity Identity) (rules.Set, []Problem) {
	result := Policies{Namespaced: policies}.Compile(identity)
	return result.Set, result.Problems
}
