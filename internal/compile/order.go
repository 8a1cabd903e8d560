package compile

import (
	"cmp"
	"time"

	"github.com/weir-dev/weir/api/v1alpha1/policyapi"
	"github.com/weir-dev/weir/limiter/rules/policyname"
)

// Name returns the name of a policy in rules, responses and problems: "namespace/name".
func Name(policy *policyapi.RateLimitPolicy) string {
	return policyname.Join(policy.Namespace, policy.Name)
}

// ClusterName returns the name of a cluster-scoped policy in rules, responses and problems: "_cluster/name".
func ClusterName(policy *policyapi.ClusterRateLimitPolicy) string {
	return policyname.Join(policyname.Cluster, policy.Name)
}

// candidate is a policy of either kind before validation.
type candidate struct {
	name       string // as in rules and problems
	namespace  string // empty if the policy is cluster-scoped
	objectName string
	created    time.Time // zero in a file
	spec       *policyapi.RateLimitPolicySpec
	cluster    *policyapi.ClusterRateLimitPolicySpec // nil if the policy is namespaced
}

// withDefaults returns the spec with the defaults of its enumerations. The schema has no defaults, so that objects do not keep those of
// their time. Package rate has the default of algorithms, and pathType, headerType and operationsOf those of entries of lists.
func withDefaults(spec policyapi.RateLimitPolicySpec) policyapi.RateLimitPolicySpec {
	spec.Scope = cmp.Or(spec.Scope, policyapi.ScopePolicy)
	spec.Overrun = cmp.Or(spec.Overrun, policyapi.OverrunDeny)
	spec.Enforcement = cmp.Or(spec.Enforcement, policyapi.EnforcementEnforce)
	spec.OnStoreFailure = cmp.Or(spec.OnStoreFailure, policyapi.StoreFailureLocal)
	spec.LocalShare = cmp.Or(spec.LocalShare, policyapi.LocalShareEqual)
	spec.Storage = cmp.Or(spec.Storage, policyapi.StorageExact)
	return spec
}

// counter returns the name under which the policy counts, in the form of its name.
func (c *candidate) counter() string {
	scope, _ := policyname.Split(c.name)
	return policyname.Join(scope, cmp.Or(c.spec.CounterName, c.objectName))
}

// counterBesidesName returns counter if it is not the name of the policy.
func (c *candidate) counterBesidesName() string {
	if counter := c.counter(); counter != c.name {
		return counter
	}
	return ""
}

// newCandidate returns the policy with its defaults.
func newCandidate(s *Source) candidate {
	if s.Cluster == nil {
		spec := withDefaults(*s.Spec)
		return candidate{name: policyname.Join(s.Namespace, s.Name), namespace: s.Namespace, objectName: s.Name, created: s.Created, spec: &spec}
	}
	spec := *s.Cluster
	spec.RateLimitPolicySpec = withDefaults(spec.RateLimitPolicySpec)
	spec.Precedence = cmp.Or(spec.Precedence, policyapi.PrecedenceOverride)
	return candidate{
		name: policyname.Join(policyname.Cluster, s.Name), objectName: s.Name, created: s.Created, spec: &spec.RateLimitPolicySpec, cluster: &spec,
	}
}

// compareNames orders policies by name. Two policies are equal only if names are not unique, which is possible in files but not in an API server.
func (c *candidate) compareNames(other *candidate) int {
	return cmp.Or(cmp.Compare(c.name, other.name), cmp.Compare(c.namespace, other.namespace))
}

// comparePrecedence is the order in which a budget and their targets are given to policies: cluster-scoped policies first, then the oldest ones.
func (c *candidate) comparePrecedence(other *candidate) int {
	return cmp.Or(compareBool(c.cluster == nil, other.cluster == nil), c.created.Compare(other.created), cmp.Compare(c.name, other.name))
}

func compareBool(x, y bool) int {
	switch {
	case x == y:
		return 0
	case y:
		return -1
	default:
		return 1
	}
}
