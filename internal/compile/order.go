package compile

import (
	"cmp"
	"slices"
	"time"

	"github.com/weir-dev/weir/api/v1alpha1/policyapi"
	"github.com/weir-dev/weir/limiter/rules/matching"
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

// groupByName groups policies by kind and name, sorted by name. Policies that are being deleted are ignored. A group has more than one
// policy only if names are not unique, which is possible in files but not in an API server.
func groupByName(policies Policies) [][]candidate {
	type key struct {
		name    string
		cluster bool
	}
	groups := map[key][]candidate{}
	add := func(c candidate) {
		k := key{c.name, c.cluster != nil}
		groups[k] = append(groups[k], c)
	}
	for i := range policies.Namespaced {
		if p := &policies.Namespaced[i]; p.DeletionTimestamp == nil {
			spec := withDefaults(p.Spec)
			add(candidate{name: Name(p), namespace: p.Namespace, objectName: p.Name, created: p.CreationTimestamp, spec: &spec})
		}
	}
	for i := range policies.Cluster {
		if p := &policies.Cluster[i]; p.DeletionTimestamp == nil {
			spec := p.Spec
			spec.RateLimitPolicySpec = withDefaults(spec.RateLimitPolicySpec)
			spec.Precedence = cmp.Or(spec.Precedence, policyapi.PrecedenceOverride)
			add(candidate{
				name: ClusterName(p), objectName: p.Name, created: p.CreationTimestamp, spec: &spec.RateLimitPolicySpec, cluster: &spec,
			})
		}
	}
	list := make([][]candidate, 0, len(groups))
	for _, same := range groups {
		list = append(list, same)
	}
	slices.SortFunc(list, func(a, b []candidate) int {
		return cmp.Or(cmp.Compare(a[0].name, b[0].name), cmp.Compare(a[0].namespace, b[0].namespace))
	})
	return list
}

// byAge returns Set.ByAge: the names of the rules of each large scope, those of the oldest policy first. It omits scopes
// whose policies have this order by name, as they do in files.
func byAge(lowered []compiled) map[string][]string {
	type policy struct {
		*compiled

		name string // of the rule, without the scope
	}
	inScope := map[string][]policy{}
	for i := range lowered {
		c := &lowered[i]
		for j := range c.rules {
			scope, name := policyname.Split(c.rules[j].Policy)
			inScope[scope] = append(inScope[scope], policy{c, name})
		}
	}
	var result map[string][]string
	for scope, policies := range inScope {
		if len(policies) <= matching.MaxPoliciesPerRequest {
			continue
		}
		// The order without the list is that of the rules' names: "a-b" is before "a:1d", although policy a is before a-b.
		slices.SortFunc(policies, func(a, b policy) int { return cmp.Compare(a.name, b.name) })
		oldest := func(a, b policy) int { return cmp.Or(a.created.Compare(b.created), cmp.Compare(a.name, b.name)) }
		if slices.IsSortedFunc(policies, oldest) {
			continue
		}
		slices.SortFunc(policies, oldest)
		if result == nil {
			result = map[string][]string{}
		}
		for _, p := range policies {
			result[scope] = append(result[scope], p.name)
		}
	}
	return result
}
