package selection

import (
	"context"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/compile/lists"
	"github.com/weir-dev/weir/internal/stored"
)

// Listed is a [PolicyLister] of the policies that the events of one watch report. To list them costs nothing that grows with the store of an informer,
// and a policy without events keeps its place in the list: see [Changes]. The zero value has no policies. It is safe for concurrent use.
type Listed struct {
	mu         sync.Mutex
	namespaced listedKind[*v1alpha1.RateLimitPolicy]
	cluster    listedKind[*v1alpha1.ClusterRateLimitPolicy]
}

// Set adds a policy, or replaces it after a change. It removes one that is being deleted.
func (l *Listed) Set(policy client.Object) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch p := policy.(type) {
	case *v1alpha1.RateLimitPolicy:
		l.namespaced.set(p)
	case *v1alpha1.ClusterRateLimitPolicy:
		l.cluster.set(p)
	}
}

// Remove removes a deleted policy.
func (l *Listed) Remove(policy client.Object) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch p := policy.(type) {
	case *v1alpha1.RateLimitPolicy:
		l.namespaced.remove(client.ObjectKeyFromObject(p))
	case *v1alpha1.ClusterRateLimitPolicy:
		l.cluster.remove(client.ObjectKeyFromObject(p))
	}
}

// ListPolicies implements [PolicyLister].
func (l *Listed) ListPolicies(context.Context) (stored.Policies, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return stored.Policies{
		Namespaced: slices.Clone(l.namespaced.list), Cluster: slices.Clone(l.cluster.list),
		NoTargets: l.namespaced.targets+l.cluster.targets == 0, NoWrites: l.namespaced.writes+l.cluster.writes == 0,
	}, nil
}

// listedKind are the policies of one kind.
type listedKind[T client.Object] struct {
	list   []T
	places map[types.NamespacedName]int // in list
	// targets and writes count the policies with targets, and with match.kubernetes.
	targets, writes int
}

// count adds the policy to the counts, or removes it with -1.
func (l *listedKind[T]) count(policy T, n int) {
	var spec *v1alpha1.RateLimitPolicySpec
	switch p := any(policy).(type) {
	case *v1alpha1.RateLimitPolicy:
		spec = &p.Spec
	case *v1alpha1.ClusterRateLimitPolicy:
		spec = &p.Spec.RateLimitPolicySpec
	}
	if len(spec.TargetRefs) > 0 {
		l.targets += n
	}
	if compile.LimitsWrites(spec.Match) {
		l.writes += n
	}
}

func (l *listedKind[T]) set(policy T) {
	key := client.ObjectKeyFromObject(policy)
	if policy.GetDeletionTimestamp() != nil {
		l.remove(key)
		return
	}
	l.count(policy, 1)
	if at, known := l.places[key]; known {
		l.count(l.list[at], -1)
		l.list[at] = policy
		return
	}
	if l.places == nil {
		l.places = map[types.NamespacedName]int{}
	}
	l.places[key] = len(l.list)
	l.list = append(l.list, policy)
}

// remove moves the last policy to the place of the removed one.
func (l *listedKind[T]) remove(key types.NamespacedName) {
	at, known := l.places[key]
	if !known {
		return
	}
	l.count(l.list[at], -1)
	last := len(l.list) - 1
	moved := l.list[last]
	l.list[at], l.places[client.ObjectKeyFromObject(moved)] = moved, at
	delete(l.places, key)
	l.list = slices.Delete(l.list, last, last+1)
}

// Changes returns the objects of a list that are not in the next one, and those that are not in the one before. An object that has moved is in both. Objects
// of a cache do not change: another version is another object.
func Changes(before, after stored.Policies) (gone, added []Object) {
	removed, places := lists.Diff(before.Cluster, after.Cluster)
	for _, i := range removed {
		gone = append(gone, clusterObject(before.Cluster[i]))
	}
	for _, i := range places {
		added = append(added, clusterObject(after.Cluster[i]))
	}
	removed, places = lists.Diff(before.Namespaced, after.Namespaced)
	for _, i := range removed {
		gone = append(gone, namespacedObject(before.Namespaced[i]))
	}
	for _, i := range places {
		added = append(added, namespacedObject(after.Namespaced[i]))
	}
	return gone, added
}
