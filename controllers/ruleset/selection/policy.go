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

// Object is the metadata of a policy of either kind, as listed in a [stored.Policies].
type Object struct {
	*metav1.ObjectMeta

	namespaced *v1alpha1.RateLimitPolicy
	cluster    *v1alpha1.ClusterRateLimitPolicy
}

func clusterObject(p *v1alpha1.ClusterRateLimitPolicy) Object {
	return Object{ObjectMeta: &p.ObjectMeta, cluster: p}
}

func namespacedObject(p *v1alpha1.RateLimitPolicy) Object {
	return Object{ObjectMeta: &p.ObjectMeta, namespaced: p}
}

// Key identifies the policy.
func (o Object) Key() Key {
	if o.cluster != nil {
		return Key{stored.ClusterName(o.cluster), true}
	}
	return Key{Name: stored.Name(o.namespaced)}
}

// Is reports whether both are the same object in memory.
func (o Object) Is(other Object) bool { return o.ObjectMeta == other.ObjectMeta }

// Policy returns the policy.
func (o Object) Policy() Policy {
	if p := o.cluster; p != nil {
		return Policy{Object: p, Name: stored.ClusterName(p), Cluster: true, Match: p.Spec.Match, Targets: p.Spec.TargetRefs, Status: &p.Status}
	}
	p := o.namespaced
	return Policy{Object: p, Name: stored.Name(p), Match: p.Spec.Match, Targets: p.Spec.TargetRefs, Status: &p.Status}
}

// List returns the policies of both kinds, cluster policies first.
func List(of stored.Policies) []Policy {
	all := make([]Policy, 0, len(of.Namespaced)+len(of.Cluster))
	for o := range Objects(of) {
		all = append(all, o.Policy())
	}
	return all
}

// Objects yields the policies of both kinds, cluster policies first.
func Objects(of stored.Policies) iter.Seq[Object] {
	return func(yield func(Object) bool) {
		for _, p := range of.Cluster {
			if !yield(clusterObject(p)) {
				return
			}
		}
		for _, p := range of.Namespaced {
			if !yield(namespacedObject(p)) {
				return
			}
		}
	}
}
