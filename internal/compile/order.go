package compile

import (
	"cmp"
	"slices"

	"github.com/weir-dev/weir/api/v1alpha1"
)

// clusterScope stands in names where that of a namespace stands in others.
const clusterScope = "cluster"

// Name is what a policy is called in rules, answers and problems: "namespace/name".
func Name(policy *v1alpha1.RateLimitPolicy) string { return policy.Namespace + "/" + policy.Name }

// ClusterName is what a policy of the cluster is called there: "cluster/name".
func ClusterName(policy *v1alpha1.ClusterRateLimitPolicy) string {
	return clusterScope + "/" + policy.Name
}

// candidate is a policy of either kind that is yet to be judged.
type candidate struct {
	name       string // of the policy everywhere else
	namespace  string // empty for one of the cluster
	objectName string
	spec       *v1alpha1.RateLimitPolicySpec
	cluster    *v1alpha1.ClusterRateLimitPolicySpec // nil for one of a namespace
}

// order groups the policies that exist by kind and name, sorted by name. A group has several only where names are not
// unique, which an API server rules out and a directory of files does not.
func order(policies Policies) [][]candidate {
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
			add(candidate{name: Name(p), namespace: p.Namespace, objectName: p.Name, spec: &p.Spec})
		}
	}
	for i := range policies.Cluster {
		if p := &policies.Cluster[i]; p.DeletionTimestamp == nil {
			add(candidate{name: ClusterName(p), objectName: p.Name, spec: &p.Spec.RateLimitPolicySpec, cluster: &p.Spec})
		}
	}
	all := make([][]candidate, 0, len(groups))
	for _, same := range groups {
		all = append(all, same)
	}
	slices.SortFunc(all, func(a, b []candidate) int {
		return cmp.Or(cmp.Compare(a[0].name, b[0].name), cmp.Compare(a[0].namespace, b[0].namespace))
	})
	return all
}
