package compile

import (
	"cmp"

	"github.com/weir-dev/weir/api/v1alpha1/policyapi"
	"github.com/weir-dev/weir/internal/compile/lowering"
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

// compareNames orders policies by name. Two policies are equal only if names are not unique, which is possible in files but not in an API server.
func compareNames(a, b *lowering.Policy) int {
	return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Namespace, b.Namespace))
}

// comparePrecedence is the order in which a budget and their targets are given to policies: cluster-scoped policies first, then the oldest ones.
func comparePrecedence(a, b *lowering.Policy) int {
	return cmp.Or(compareBool(a.Cluster == nil, b.Cluster == nil), a.Created.Compare(b.Created), cmp.Compare(a.Name, b.Name))
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
