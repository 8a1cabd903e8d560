package policy

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
)

// Cache holds the stored policies of both kinds, Limiters, and the metadata of namespaces.
type Cache interface {
	// List waits until the cache has the objects of that kind.
	List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error
	// GetInformer returns what the cache follows the objects of that kind with.
	GetInformer(ctx context.Context, kind client.Object, options ...cache.InformerGetOption) (cache.Informer, error)
}

// follow waits until the index has all policies and namespaces of the cache. The first call makes the index follow the events of the cache. It fails
// as a List of the cache does, for example if the context ends while the cache cannot read an API server.
func (x *index) follow(ctx context.Context) error {
	if x.followed.Load() {
		return nil
	}
	namespace := metav1.PartialObjectMetadata{}
	namespace.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "Namespace"})
	namespaces := metav1.PartialObjectMetadataList{}
	namespaces.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "NamespaceList"})
	for i, kind := range []struct {
		object client.Object
		list   client.ObjectList
	}{
		{&namespace, &namespaces}, // before the policies, which Limiters select by the labels of the namespaces
		{&v1alpha1.RateLimitPolicy{}, &v1alpha1.RateLimitPolicyList{}},
		{&v1alpha1.ClusterRateLimitPolicy{}, &v1alpha1.ClusterRateLimitPolicyList{}},
	} {
		if err := x.cache.List(ctx, kind.list, client.Limit(1), client.UnsafeDisableDeepCopy); err != nil {
			return fmt.Errorf("list policies and namespaces: %w", err)
		}
		delivered, err := x.handler(ctx, i, kind.object)
		if err != nil {
			return fmt.Errorf("follow policies and namespaces: %w", err)
		}
		select {
		case <-delivered.HasSyncedChecker().Done():
		case <-ctx.Done():
			return fmt.Errorf("read policies and namespaces: %w", context.Cause(ctx))
		}
	}
	x.followed.Store(true)
	return nil
}

// handler adds the handler of events about the i-th kind, once.
func (x *index) handler(ctx context.Context, i int, kind client.Object) (toolscache.ResourceEventHandlerRegistration, error) {
	x.followMu.Lock()
	defer x.followMu.Unlock()
	if i < len(x.handlers) {
		return x.handlers[i], nil
	}
	informer, err := x.cache.GetInformer(ctx, kind)
	if err != nil {
		return nil, err
	}
	added, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: x.set, UpdateFunc: func(_, object any) { x.set(object) }, DeleteFunc: x.remove,
	})
	if err == nil {
		x.handlers = append(x.handlers, added)
	}
	return added, err
}

// set records the current version of an object.
func (x *index) set(object any) {
	switch o := object.(type) {
	case *v1alpha1.RateLimitPolicy:
		x.setPolicy(o)
	case *v1alpha1.ClusterRateLimitPolicy:
		x.setPolicy(o)
	case *metav1.PartialObjectMetadata:
		x.setNamespace(o.Name, o.Labels, true)
	}
}

// remove records that an object does not exist any more.
func (x *index) remove(object any) {
	if last, isUnknown := object.(toolscache.DeletedFinalStateUnknown); isUnknown {
		object = last.Obj
	}
	switch o := object.(type) {
	case *v1alpha1.RateLimitPolicy:
		x.removePolicy(client.ObjectKeyFromObject(o))
	case *v1alpha1.ClusterRateLimitPolicy:
		x.removePolicy(client.ObjectKeyFromObject(o))
	case *metav1.PartialObjectMetadata:
		x.setNamespace(o.Name, nil, false)
	}
}
