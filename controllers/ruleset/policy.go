package ruleset

import (
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	v1alpha1ac "github.com/weir-dev/weir/api/v1alpha1/applyconfiguration/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
)

// policy is a policy of either kind, for reading only: it is the cache's own.
type policy struct {
	client.Object
	name    string // in rules
	cluster bool
	status  *v1alpha1.RateLimitPolicyStatus
}

// key tells policies apart. A name does not: a namespace can be called as what stands in the names of cluster policies.
type key struct {
	name    string
	cluster bool
}

func (p policy) key() key { return key{p.name, p.cluster} }

// kinds are an object of each kind of policy.
func kinds() []client.Object {
	return []client.Object{&v1alpha1.RateLimitPolicy{}, &v1alpha1.ClusterRateLimitPolicy{}}
}

// each is every policy of either kind.
func each(of compile.Policies) []policy {
	all := make([]policy, 0, len(of.Namespaced)+len(of.Cluster))
	for i := range of.Cluster {
		p := &of.Cluster[i]
		all = append(all, policy{Object: p, name: compile.ClusterName(p), cluster: true, status: &p.Status})
	}
	for i := range of.Namespaced {
		p := &of.Namespaced[i]
		all = append(all, policy{Object: p, name: compile.Name(p), status: &p.Status})
	}
	return all
}

// apply is the server-side apply of a status over a version of the policy, and the version that the answer tells: the
// client reads it into what it sent.
func (p policy) apply(over string, status *v1alpha1ac.RateLimitPolicyStatusApplyConfiguration) (
	apply runtime.ApplyConfiguration, version func() string,
) {
	if p.cluster {
		a := v1alpha1ac.ClusterRateLimitPolicy(p.GetName()).WithResourceVersion(over).WithStatus(status)
		return a, func() string { return *a.ResourceVersion }
	}
	a := v1alpha1ac.RateLimitPolicy(p.GetName(), p.GetNamespace()).WithResourceVersion(over).WithStatus(status)
	return a, func() string { return *a.ResourceVersion }
}
