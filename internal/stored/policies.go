// Package stored has the policies that an API server stores: those that a Limiter selects, compiled as its spec sets it.
package stored

import (
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
	Namespaced    []v1alpha1.RateLimitPolicy
	Cluster       []v1alpha1.ClusterRateLimitPolicy
	Namespaces    []compile.Namespace
	Gateways      *gateway.Objects
	RouteMatching []v1alpha1.GatewayReference
}

// Compile is [compile.Policies.Compile].
func (p Policies) Compile(identity compile.Identity) compile.Result {
	return p.policies().Compile(identity)
}

// CompileWithin is [compile.Policies.CompileWithin].
func (p Policies) CompileWithin(identity compile.Identity, budget budget.Budget) compile.Result {
	return p.policies().CompileWithin(identity, budget)
}

// Usage is [compile.Policies.Usage].
func (p Policies) Usage(identity compile.Identity) budget.Usage { return p.policies().Usage(identity) }

// policies returns what compiling reads of the policies.
func (p Policies) policies() compile.Policies {
	all := compile.Policies{
		Namespaced: make([]policyapi.RateLimitPolicy, len(p.Namespaced)), Cluster: make([]policyapi.ClusterRateLimitPolicy, len(p.Cluster)),
		Namespaces: p.Namespaces, Gateways: p.Gateways, RouteMatching: p.RouteMatching,
	}
	for i := range p.Namespaced {
		all.Namespaced[i] = policyapi.RateLimitPolicy{ObjectMeta: metadata(&p.Namespaced[i].ObjectMeta), Spec: p.Namespaced[i].Spec}
	}
	for i := range p.Cluster {
		all.Cluster[i] = policyapi.ClusterRateLimitPolicy{ObjectMeta: metadata(&p.Cluster[i].ObjectMeta), Spec: p.Cluster[i].Spec}
	}
	return all
}

func metadata(m *metav1.ObjectMeta) policyapi.ObjectMeta {
	own := policyapi.ObjectMeta{Namespace: m.Namespace, Name: m.Name, Labels: m.Labels, CreationTimestamp: m.CreationTimestamp.Time}
	if m.DeletionTimestamp != nil {
		own.DeletionTimestamp = &m.DeletionTimestamp.Time
	}
	return own
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
