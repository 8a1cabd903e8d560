package selection

import (
	"context"
	"fmt"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/stored"
)

// WithInformers returns the client as a [PolicyLister] of the informers from which it reads.
func WithInformers(c client.Client, informers cache.Informers) client.Client {
	return cachedPolicies{c, informers}
}

type cachedPolicies struct {
	client.Client

	informers cache.Informers
}

// ListPolicies implements PolicyLister.
func (c cachedPolicies) ListPolicies(ctx context.Context) (policies stored.Policies, err error) {
	if policies.Namespaced, err = listOf[*v1alpha1.RateLimitPolicy](ctx, c.informers, &v1alpha1.RateLimitPolicy{}); err != nil {
		return stored.Policies{}, err
	}
	policies.Cluster, err = listOf[*v1alpha1.ClusterRateLimitPolicy](ctx, c.informers, &v1alpha1.ClusterRateLimitPolicy{})
	return policies, err
}

// listOf returns the objects of one kind. The informers of controller-runtime are those of client-go, which have a store.
func listOf[T client.Object](ctx context.Context, informers cache.Informers, kind client.Object) ([]T, error) {
	informer, err := informers.GetInformer(ctx, kind)
	if err != nil {
		return nil, err
	}
	shared, hasStore := informer.(toolscache.SharedInformer)
	if !hasStore {
		return nil, fmt.Errorf("the informer of %T has no store: it is a %T", kind, informer)
	}
	list := shared.GetStore().List()
	objects := make([]T, 0, len(list))
	for _, object := range list {
		typed, isTyped := object.(T)
		if !isTyped {
			return nil, fmt.Errorf("the informer of %T has a %T", kind, object)
		}
		objects = append(objects, typed)
	}
	return objects, nil
}
