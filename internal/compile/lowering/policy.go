// Package lowering validates one policy and converts it to rules. The result depends on this policy and on the identity table, and on nothing else.
package lowering

import (
	"cmp"
	"time"

	"github.com/weir-dev/weir/api/v1alpha1/policyapi"
	"github.com/weir-dev/weir/limiter/rules/policyname"
)

// Policy is a policy of either kind, with the defaults of its enumerations.
type Policy struct {
	Name       string // as in rules and problems
	Namespace  string // empty if the policy is cluster-scoped
	ObjectName string
	Created    time.Time // zero in a file
	Spec       *policyapi.RateLimitPolicySpec
	Cluster    *policyapi.ClusterRateLimitPolicySpec // nil if the policy is namespaced
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

// Counter returns the name under which the policy counts, in the form of its name.
func (p *Policy) Counter() string {
	scope, _ := policyname.Split(p.Name)
	return policyname.Join(scope, cmp.Or(p.Spec.CounterName, p.ObjectName))
}

// counterBesidesName returns Counter if it is not the name of the policy.
func (p *Policy) counterBesidesName() string {
	if counter := p.Counter(); counter != p.Name {
		return counter
	}
	return ""
}

// New returns a RateLimitPolicy with this spec.
func New(namespace, name string, created time.Time, spec *policyapi.RateLimitPolicySpec) Policy {
	own := withDefaults(*spec)
	return Policy{Name: policyname.Join(namespace, name), Namespace: namespace, ObjectName: name, Created: created, Spec: &own}
}

// NewCluster returns a ClusterRateLimitPolicy with this spec.
func NewCluster(name string, created time.Time, spec *policyapi.ClusterRateLimitPolicySpec) Policy {
	own := *spec
	own.RateLimitPolicySpec = withDefaults(own.RateLimitPolicySpec)
	own.Precedence = cmp.Or(own.Precedence, policyapi.PrecedenceOverride)
	return Policy{Name: policyname.Join(policyname.Cluster, name), ObjectName: name, Created: created, Spec: &own.RateLimitPolicySpec, Cluster: &own}
}
