package ruleset

import (
	"context"
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
)

// gathered is all that rule sets are made of, as it was at one moment.
type gathered struct {
	compile.Policies

	// namespaces is different when they are.
	namespaces uint64
}

// gather lists the policies that are not being deleted, and the namespaces.
func (c Config) gather(ctx context.Context) (gathered, error) {
	var namespaced v1alpha1.RateLimitPolicyList
	var cluster v1alpha1.ClusterRateLimitPolicyList
	var namespaces metav1.PartialObjectMetadataList
	namespaces.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "NamespaceList"})
	for _, list := range []client.ObjectList{&namespaced, &cluster, &namespaces} {
		if err := c.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return gathered{}, fmt.Errorf("list policies and namespaces: %w", err)
		}
	}
	found := gathered{Policies: compile.Policies{
		Namespaced: slices.DeleteFunc(namespaced.Items, func(p v1alpha1.RateLimitPolicy) bool { return p.DeletionTimestamp != nil }),
		Cluster:    slices.DeleteFunc(cluster.Items, func(p v1alpha1.ClusterRateLimitPolicy) bool { return p.DeletionTimestamp != nil }),
	}}
	for i := range namespaces.Items {
		n := &namespaces.Items[i]
		found.Namespaces = append(found.Namespaces, compile.Namespace{Name: n.Name, Labels: n.Labels, Annotations: n.Annotations})
		found.namespaces += maphash.String(seed, string(n.UID)+" "+n.ResourceVersion) // in whatever order
	}
	return found, nil
}

// considered are the generations of all policies, selected or not; those of before if they are the same.
func (g gathered) considered(before map[types.UID]int64) map[types.UID]int64 {
	all := make(map[types.UID]int64, len(g.Namespaced)+len(g.Cluster))
	for i := range g.Namespaced {
		all[g.Namespaced[i].UID] = g.Namespaced[i].Generation
	}
	for i := range g.Cluster {
		all[g.Cluster[i].UID] = g.Cluster[i].Generation
	}
	if before != nil && maps.Equal(all, before) {
		return before
	}
	return all
}

// changes counts what a watch has seen of that which rule sets are made of. It stays 0 where nothing watches.
type changes struct{ n atomic.Uint64 }

func (c *changes) add() { c.n.Add(1) }

// since says whether there may be anything new since the count was seen, and what it is now.
func (c *changes) since(seen uint64) (now uint64, anything bool) {
	now = c.n.Load()
	return now, now == 0 || now != seen
}

// seed makes sums comparable within the process.
var seed = maphash.MakeSeed() //nolint:gochecknoglobals // a constant that cannot be written as one
