package compile

import (
	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/limiter/rules"
)

// Policies are what to compile: those of namespaces, and those of the cluster.
type Policies struct {
	Namespaced []v1alpha1.RateLimitPolicy
	Cluster    []v1alpha1.ClusterRateLimitPolicy
	// Namespaces of the cluster, in any order; rules that ask for labels or tenants of namespaces know these.
	Namespaces []Namespace
}

// Namespace is what of a namespace policies can depend on.
type Namespace struct {
	Name                string
	Labels, Annotations map[string]string
}

// Result is what policies come out as.
type Result struct {
	// Set is what limiters enforce: a rule for each policy without a problem, sorted by policy.
	Set rules.Set
	// Problems say why the other policies are not enforced, sorted by policy, and within one in the order of its fields.
	Problems []Problem
	// Overrides say which policies decide nothing for another one, sorted by policy and domain.
	Overrides []Override
}

// Problem is why a policy is not enforced.
type Problem struct {
	Policy string `json:"policy"` // "namespace/name", or "cluster/name"
	// Cluster: of a ClusterRateLimitPolicy. The name does not tell that, for a namespace can be called cluster.
	Cluster bool   `json:"cluster,omitempty"`
	Field   string `json:"field"`  // "spec.match.http.paths[0].value"
	Reason  string `json:"reason"` // a reason of the condition Accepted: v1alpha1.ReasonInvalid
	Message string `json:"message"`
}

// String reads "shop/tenant-daily: spec.limit: limit 0 is outside …".
func (p Problem) String() string { return p.Policy + ": " + p.Field + ": " + p.Message }

// Compile turns policies into what limiters enforce, and says why for each policy that cannot be. Policies that name no
// identifier take it from the identity table; policies that are being deleted are left out. The Set says of the namespaces
// what its rules ask, and nothing where they ask nothing.
func (p Policies) Compile(identity Identity) Result {
	var result Result
	for _, same := range order(p) {
		valid, found := validate(same)
		if len(found) > 0 {
			result.Problems = append(result.Problems, found...)
			continue
		}
		result.Set.Rules = append(result.Set.Rules, lower(valid, resolve(valid, identity)))
	}
	result.Set.Namespaces = known(p.Namespaces, result.Set.Rules, identity)
	result.Overrides = overrides(result.Set.Rules)
	return result
}

// Compile is [Policies.Compile] for policies of namespaces alone, among which none decides for another.
func Compile(policies []v1alpha1.RateLimitPolicy, identity Identity) (rules.Set, []Problem) {
	result := Policies{Namespaced: policies}.Compile(identity)
	return result.Set, result.Problems
}
