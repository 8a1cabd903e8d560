package selection

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/compile/gateway"
	"github.com/weir-dev/weir/internal/stored"
)

// Inputs are the objects that rule sets are compiled from, read at one moment.
type Inputs struct {
	stored.Policies
	Hashes
}

// Hashes of the objects that policies depend on.
type Hashes struct {
	// NamespacesHash changes when a namespace is created, changed or deleted. Hashes are comparable within one process.
	NamespacesHash uint64
	// GatewaysHash does the same for the objects that policies can target. It is 0 if no policy has targets. While they cannot be
	// read, it changes with the reason.
	GatewaysHash uint64
}

// A GatewayReader reads the objects that policies can target.
type GatewayReader interface {
	// Read returns the objects, and a hash that is not 0 and changes when an object is created, changed or deleted. It fails while it does
	// not know all of them.
	Read(ctx context.Context) (*gateway.Objects, uint64, error)
}

// A Reader reads what rule sets are compiled from.
type Reader struct {
	// Reader reads namespaces from a cache, and policies without a PolicyLister.
	client.Reader
	// Policies that are not being deleted; can be nil.
	Policies PolicyLister
	// Gateways reads the possible targets of policies. If it is nil, they are unknown.
	Gateways GatewayReader
}

// Gather lists the namespaces, the policies that are not being deleted, and the possible targets if a policy has targets or tables is true.
// While the targets cannot be read, only the policies with targets wait: see [compile.Gateways.Unreadable].
func Gather(ctx context.Context, reader Reader, tables bool) (Inputs, error) {
	policies, err := reader.listPolicies(ctx)
	if err != nil {
		return Inputs{}, err
	}
	inputs := Inputs{Policies: policies}
	var namespaces metav1.PartialObjectMetadataList
	namespaces.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "NamespaceList"})
	if err := reader.List(ctx, &namespaces, client.UnsafeDisableDeepCopy); err != nil {
		return Inputs{}, fmt.Errorf("list namespaces: %w", err)
	}
	for i := range namespaces.Items {
		n := &namespaces.Items[i]
		inputs.Namespaces = append(inputs.Namespaces, compile.Namespace{Name: n.Name, Labels: n.Labels, Annotations: n.Annotations})
		inputs.NamespacesHash += maphash.String(hashSeed, string(n.UID)+" "+n.ResourceVersion) // a sum does not depend on the order
	}
	inputs.NamespacesVersion = inputs.NamespacesHash
	if reader.Gateways == nil || !tables && !inputs.HaveTargets() {
		return inputs, nil
	}
	if inputs.Gateways, inputs.GatewaysHash, err = reader.Gateways.Read(ctx); err != nil {
		inputs.Gateways, inputs.GatewaysHash = &gateway.Objects{Unreadable: err}, maphash.String(hashSeed, err.Error())
	}
	inputs.Gateways.Version = inputs.GatewaysHash
	return inputs, nil
}

func (r Reader) listPolicies(ctx context.Context) (stored.Policies, error) {
	if r.Policies == nil {
		return ListPolicies(ctx, r.Reader)
	}
	policies, err := r.Policies.ListPolicies(ctx)
	if err != nil {
		return stored.Policies{}, fmt.Errorf("list policies: %w", err)
	}
	return policies, nil
}

// A PolicyLister lists policies without copying them: a list of 10 000 policies has 7 MB.
type PolicyLister interface {
	// ListPolicies returns the policies of a cache, in any order. They are read-only.
	ListPolicies(ctx context.Context) (stored.Policies, error)
}

// ListPolicies returns the policies that are not being deleted. It does not copy them if the reader is a [PolicyLister].
func ListPolicies(ctx context.Context, reader client.Reader) (policies stored.Policies, err error) {
	if lister, ok := reader.(PolicyLister); ok {
		policies, err = lister.ListPolicies(ctx)
	} else {
		var namespaced v1alpha1.RateLimitPolicyList
		var cluster v1alpha1.ClusterRateLimitPolicyList
		err = errors.Join(reader.List(ctx, &namespaced, client.UnsafeDisableDeepCopy), reader.List(ctx, &cluster, client.UnsafeDisableDeepCopy))
		policies = stored.Policies{Namespaced: stored.Pointers(namespaced.Items), Cluster: stored.Pointers(cluster.Items)}
	}
	if err != nil {
		return stored.Policies{}, fmt.Errorf("list policies: %w", err)
	}
	policies.Namespaced = slices.DeleteFunc(policies.Namespaced, func(p *v1alpha1.RateLimitPolicy) bool { return p.DeletionTimestamp != nil })
	policies.Cluster = slices.DeleteFunc(policies.Cluster, func(p *v1alpha1.ClusterRateLimitPolicy) bool { return p.DeletionTimestamp != nil })
	return policies, nil
}

// Unreadable reports whether the objects that policies can target cannot be read.
func (in Inputs) Unreadable() bool { return in.Gateways != nil && in.Gateways.Unreadable != nil }

// Generations returns the generation of each policy of a list. It gets those of the list before, which are nil without a list, and returns them if nothing
// differs. It does not change them.
func Generations(before, after stored.Policies, generations map[types.UID]int64) map[types.UID]int64 {
	generations, _ = generationsAfter(before, after, generations)
	return generations
}

// generationsAfter is Generations. It also returns the UIDs of the policies that differ, and of others that have moved.
func generationsAfter(before, after stored.Policies, generations map[types.UID]int64) (next map[types.UID]int64, changed []types.UID) {
	if generations == nil {
		before = stored.Policies{}
	}
	gone, added := Changes(before, after)
	isSame := generations != nil && len(gone) == len(added)
	for i := 0; i < len(added) && isSame; i++ {
		generation, known := generations[added[i].UID]
		isSame = known && generation == added[i].Generation
	}
	if isSame {
		return generations, nil
	}
	if next = maps.Clone(generations); next == nil {
		next = make(map[types.UID]int64, len(added))
	}
	for _, o := range gone {
		delete(next, o.UID)
		changed = append(changed, o.UID)
	}
	for _, o := range added {
		next[o.UID] = o.Generation
		changed = append(changed, o.UID)
	}
	return next, changed
}

// hashSeed makes hashes comparable within the process.
var hashSeed = maphash.MakeSeed() //nolint:gochecknoglobals // a constant that Go cannot write as one
