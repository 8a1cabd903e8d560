package selection

import (
	"context"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
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
	return stored.Policies{Namespaced: slices.Clone(l.namespaced.list), Cluster: slices.Clone(l.cluster.list)}, nil
}

// listedKind are the policies of one kind.
type listedKind[T client.Object] struct {
	list   []T
	places map[types.NamespacedName]int // in list
}

func (l *listedKind[T]) set(policy T) {
	key := client.ObjectKeyFromObject(policy)
	if policy.GetDeletionTimestamp() != nil {
		l.remove(key)
		return
	}
	if at, known := l.places[key]; known {
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
	last := len(l.list) - 1
	moved := l.list[last]
	l.list[at], l.places[client.ObjectKeyFromObject(moved)] = moved, at
	delete(l.places, key)
	l.list = slices.Delete(l.list, last, last+1)
}

// Changes returns the objects that are not at the same place of both lists: those of the list before, and those of the list after. An object that has
// moved is in both. Objects of a cache do not change: another version is another object.
func Changes(before, after stored.Policies) (gone, added []Object) {
	changesOf(before.Cluster, after.Cluster, func(o *v1alpha1.ClusterRateLimitPolicy, isGone bool) {
		object := Object{ObjectMeta: &o.ObjectMeta, cluster: o}
		if isGone {
			gone = append(gone, object)
		} else {
			added = append(added, object)
		}
	})
	changesOf(before.Namespaced, after.Namespaced, func(o *v1alpha1.RateLimitPolicy, isGone bool) {
		object := Object{ObjectMeta: &o.ObjectMeta, namespaced: o}
		if isGone {
			gone = append(gone, object)
		} else {
			added = append(added, object)
		}
	})
	return gone, added
}

func changesOf[T any](before, after []*T, changed func(object *T, isGone bool)) {
	for i := range max(len(before), len(after)) {
		switch {
		case i >= len(before):
			changed(after[i], false)
		case i >= len(after):
			changed(before[i], true)
		case before[i] != after[i]:
			changed(before[i], true)
			changed(after[i], false)
		}
	}
}
