package selection

import (
	"iter"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/stored"
)

// Policy is a RateLimitPolicy or a ClusterRateLimitPolicy. It is read-only: the object is shared with the cache.
type Policy struct {
	client.Object
	// Name of the policy in rules.
	Name string
	// Cluster is true for a ClusterRateLimitPolicy.
	Cluster bool
	// Match of the spec.
	Match *v1alpha1.Match
	// Targets of the spec.
	Targets []v1alpha1.TargetReference
	// Status of the object.
	Status *v1alpha1.RateLimitPolicyStatus
}

// Key identifies a policy. The name alone does not: a namespace can have the name that rules use as the prefix of cluster
// policies.
type Key struct {
	Name    string
	Cluster bool
}

// Key identifies p.
func (p Policy) Key() Key { return Key{p.Name, p.Cluster} }

// Kinds returns an empty object of each kind of policy.
func Kinds() []client.Object {
	return []client.Object{&v1alpha1.RateLimitPolicy{}, &v1alpha1.ClusterRateLimitPolicy{}}
}

// List returns the policies of both kinds, cluster policies first.
func List(of stored.Policies) []Policy {
	all := make([]Policy, 0, len(of.Namespaced)+len(of.Cluster))
	for i := range of.Cluster {
		p := &of.Cluster[i]
		all = append(all, Policy{Object: p, Name: stored.ClusterName(p), Cluster: true, Match: p.Spec.Match, Targets: p.Spec.TargetRefs, Status: &p.Status})
	}
	for i := range of.Namespaced {
		p := &of.Namespaced[i]
		all = append(all, Policy{Object: p, Name: stored.Name(p), Match: p.Spec.Match, Targets: p.Spec.TargetRefs, Status: &p.Status})
	}
	return all
}

// objects yields the metadata of the policies of both kinds.
func objects(of stored.Policies) iter.Seq[*metav1.ObjectMeta] {
	return func(yield func(*metav1.ObjectMeta) bool) {
		for i := range of.Cluster {
			if !yield(&of.Cluster[i].ObjectMeta) {
				return
			}
		}
		for i := range of.Namespaced {
			if !yield(&of.Namespaced[i].ObjectMeta) {
				return
			}
		}
	}
}
