// Package stored has the policies that an API server stores: those that a Limiter selects, compiled as its spec sets it.
package stored

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/api/v1alpha1/policyapi"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/compile/budget"
	"github.com/weir-dev/weir/internal/compile/gateway"
	"github.com/weir-dev/weir/limiter/rules/policyname"
)

// Policies are policies as an API server stores them, with the objects that they depend on. See [compile.Policies].
type Policies struct {
	// The policies are read-only: they can be those of a cache.
	Namespaced []*v1alpha1.RateLimitPolicy
	Cluster    []*v1alpha1.ClusterRateLimitPolicy
	Namespaces []compile.Namespace
	// NamespacesVersion is that of [compile.Inputs].
	NamespacesVersion uint64
	Gateways          *gateway.Objects
	RouteMatching     []v1alpha1.GatewayReference
	// NoTargets and NoWrites are true if it is known that no policy has targets, or match.kubernetes: to find out takes a look at each policy.
	NoTargets, NoWrites bool
}

// HaveTargets reports whether a policy has targets.
func (p Policies) HaveTargets() bool {
	return !p.NoTargets && (slices.ContainsFunc(p.Namespaced, func(policy *v1alpha1.RateLimitPolicy) bool { return len(policy.Spec.TargetRefs) > 0 }) ||
		slices.ContainsFunc(p.Cluster, func(policy *v1alpha1.ClusterRateLimitPolicy) bool { return len(policy.Spec.TargetRefs) > 0 }))
}

// Pointers returns pointers to the elements of a list.
func Pointers[T any](list []T) []*T {
	pointers := make([]*T, len(list))
	for i := range list {
		pointers[i] = &list[i]
	}
	return pointers
}

// Compile is [compile.Policies.Compile].
func (p Policies) Compile(identity compile.Identity) compile.Result {
	return p.CompileWithin(identity, budget.Budget{})
}

// CompileWithin is [compile.Policies.CompileWithin].
func (p Policies) CompileWithin(identity compile.Identity, budget budget.Budget) compile.Result {
	return p.CompileAfter(new(compile.Memo), identity, budget)
}

// CompileAfter is CompileWithin with the memory of an earlier call.
func (p Policies) CompileAfter(memo *compile.Memo, identity compile.Identity, budget budget.Budget) compile.Result {
	return memo.Compile(p.Inputs(), identity, budget)
}

// Inputs returns what compiling reads.
func (p Policies) Inputs() compile.Inputs {
	return compile.Inputs{
		Policies: p.origins, Namespaces: p.Namespaces, NamespacesVersion: p.NamespacesVersion, Gateways: p.Gateways, RouteMatching: p.RouteMatching,
	}
}

// Usage is [compile.Policies.Usage].
func (p Policies) Usage(identity compile.Identity) budget.Usage {
	return p.CompileWithin(identity, compile.Counting()).Used
}

// origins yields the policies as compiling reads them.
func (p Policies) origins(yield func(compile.Origin) bool) {
	for _, n := range p.Namespaced {
		if !yield((*namespaced)(n)) {
			return
		}
	}
	for _, c := range p.Cluster {
		if !yield((*cluster)(c)) {
			return
		}
	}
}

// namespaced and cluster are policies that implement [compile.Origin].
type (
	namespaced v1alpha1.RateLimitPolicy
	cluster    v1alpha1.ClusterRateLimitPolicy
)

// Source returns what compiling reads of the policy.
func (n *namespaced) Source() *compile.Source {
	s := sourceOf(&n.ObjectMeta)
	if s != nil {
		s.Spec = &n.Spec
	}
	return s
}

// Source returns what compiling reads of the policy.
func (c *cluster) Source() *compile.Source {
	s := sourceOf(&c.ObjectMeta)
	if s != nil {
		s.Namespace, s.Cluster = "", &c.Spec
	}
	return s
}

func sourceOf(m *metav1.ObjectMeta) *compile.Source {
	if m.DeletionTimestamp != nil {
		return nil
	}
	return &compile.Source{UID: string(m.UID), Generation: m.Generation, Namespace: m.Namespace, Name: m.Name, Created: m.CreationTimestamp.Time}
}

// Name returns the name of a policy in rules, responses and problems: "namespace/name".
func Name(policy *v1alpha1.RateLimitPolicy) string {
	return policyname.Join(policy.Namespace, policy.Name)
}

// ClusterName returns the name of a cluster-scoped policy in rules, responses and problems: "_cluster/name".
func ClusterName(policy *v1alpha1.ClusterRateLimitPolicy) string {
	return policyname.Join(policyname.Cluster, policy.Name)
}

// LabelSelector converts a label selector of the Kubernetes API.
func LabelSelector(selector *metav1.LabelSelector) *policyapi.LabelSelector {
	if selector == nil {
		return nil
	}
	own := &policyapi.LabelSelector{MatchLabels: selector.MatchLabels}
	for _, r := range selector.MatchExpressions {
		own.MatchExpressions = append(own.MatchExpressions, policyapi.LabelSelectorRequirement{
			Key: r.Key, Operator: policyapi.LabelSelectorOperator(r.Operator), Values: r.Values,
		})
	}
	return own
}
