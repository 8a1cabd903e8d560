package policy

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
)

// fakeCache is the cache of an operator without an API server. It reports events before put and remove return. Several goroutines can list.
type fakeCache struct {
	mu         sync.Mutex
	policies   map[types.NamespacedName]*v1alpha1.RateLimitPolicy
	cluster    map[types.NamespacedName]*v1alpha1.ClusterRateLimitPolicy
	namespaces map[types.NamespacedName]*metav1.PartialObjectMetadata
	limiters   []v1alpha1.Limiter
	err        error         // of List
	delivered  chan struct{} // closed when handlers have the objects; nil for immediately
	handlers   map[string][]toolscache.ResourceEventHandler
	hide       func(before, after client.Object) bool // does not report the event if it returns true; nil for no event
}

func newFakeCache() *fakeCache {
	return &fakeCache{
		policies:   map[types.NamespacedName]*v1alpha1.RateLimitPolicy{},
		cluster:    map[types.NamespacedName]*v1alpha1.ClusterRateLimitPolicy{},
		namespaces: map[types.NamespacedName]*metav1.PartialObjectMetadata{},
		handlers:   map[string][]toolscache.ResourceEventHandler{},
	}
}

func (c *fakeCache) index() *index { return newIndex(c, compile.DefaultIdentity()) }

// List copies the objects, as the cache of controller-runtime does.
func (c *fakeCache) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var o client.ListOptions
	o.ApplyOptions(options)
	isFull := func(items int) bool { return o.Limit > 0 && int64(items) >= o.Limit }
	switch list := list.(type) {
	case *v1alpha1.RateLimitPolicyList:
		for key, p := range c.policies {
			if (o.Namespace == "" || o.Namespace == key.Namespace) && !isFull(len(list.Items)) {
				list.Items = append(list.Items, *p)
			}
		}
	case *v1alpha1.ClusterRateLimitPolicyList:
		for _, p := range c.cluster {
			list.Items = append(list.Items, *p)
		}
	case *v1alpha1.LimiterList:
		list.Items = slices.Clone(c.limiters)
	case *metav1.PartialObjectMetadataList:
		for _, n := range c.namespaces {
			list.Items = append(list.Items, *n)
		}
	default:
		return fmt.Errorf("unexpected list of %T", list)
	}
	return c.err
}

// GetInformer implements Cache.
func (c *fakeCache) GetInformer(_ context.Context, kind client.Object, _ ...cache.InformerGetOption) (cache.Informer, error) {
	return fakeInformer{cache: c, kind: kind}, nil
}

type fakeInformer struct {
	cache.Informer

	cache *fakeCache
	kind  client.Object
}

// AddEventHandler reports all objects to the handler.
func (i fakeInformer) AddEventHandler(handler toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	i.cache.mu.Lock()
	kind := fmt.Sprintf("%T", i.kind)
	i.cache.handlers[kind] = append(i.cache.handlers[kind], handler)
	objects := i.cache.objects(i.kind)
	i.cache.mu.Unlock()
	for _, object := range objects {
		handler.OnAdd(object, true)
	}
	return registration{delivered: i.cache.delivered}, nil
}

// objects returns the objects of a kind. The caller must hold the lock.
func (c *fakeCache) objects(kind client.Object) (all []client.Object) {
	switch kind.(type) {
	case *v1alpha1.RateLimitPolicy:
		for _, p := range c.policies {
			all = append(all, p)
		}
	case *v1alpha1.ClusterRateLimitPolicy:
		for _, p := range c.cluster {
			all = append(all, p)
		}
	default:
		for _, n := range c.namespaces {
			all = append(all, n)
		}
	}
	slices.SortFunc(all, func(a, b client.Object) int {
		return cmp.Compare(client.ObjectKeyFromObject(a).String(), client.ObjectKeyFromObject(b).String())
	})
	return all
}

// find returns the stored version of an object; nil without one. The caller must hold the lock.
func (c *fakeCache) find(object client.Object) client.Object {
	key := client.ObjectKeyFromObject(object)
	switch object.(type) {
	case *v1alpha1.RateLimitPolicy:
		if p := c.policies[key]; p != nil {
			return p
		}
	case *v1alpha1.ClusterRateLimitPolicy:
		if p := c.cluster[key]; p != nil {
			return p
		}
	case *metav1.PartialObjectMetadata:
		if n := c.namespaces[key]; n != nil {
			return n
		}
	}
	return nil
}

type registration struct {
	toolscache.ResourceEventHandlerRegistration
	toolscache.DoneChecker

	delivered chan struct{}
}

func (r registration) HasSyncedChecker() toolscache.DoneChecker { return r }

func (r registration) Done() <-chan struct{} {
	if r.delivered != nil {
		return r.delivered
	}
	done := make(chan struct{})
	close(done)
	return done
}

// put stores an object.
func (c *fakeCache) put(object client.Object) {
	key := client.ObjectKeyFromObject(object)
	c.mu.Lock()
	before := c.find(object)
	switch o := object.(type) {
	case *v1alpha1.RateLimitPolicy:
		c.policies[key] = o
	case *v1alpha1.ClusterRateLimitPolicy:
		c.cluster[key] = o
	case *metav1.PartialObjectMetadata:
		c.namespaces[key] = o
	}
	handlers := c.handlers[fmt.Sprintf("%T", object)]
	c.mu.Unlock()
	if c.hide != nil && c.hide(before, object) {
		return
	}
	for _, h := range handlers {
		h.OnUpdate(object, object)
	}
}

// remove deletes an object. The event can be that of a watch that was interrupted.
func (c *fakeCache) remove(object client.Object, interrupted bool) {
	key := client.ObjectKeyFromObject(object)
	c.mu.Lock()
	switch object.(type) {
	case *v1alpha1.RateLimitPolicy:
		delete(c.policies, key)
	case *v1alpha1.ClusterRateLimitPolicy:
		delete(c.cluster, key)
	case *metav1.PartialObjectMetadata:
		delete(c.namespaces, key)
	}
	handlers := c.handlers[fmt.Sprintf("%T", object)]
	c.mu.Unlock()
	if c.hide != nil && c.hide(object, nil) {
		return
	}
	var event any = object
	if interrupted {
		event = toolscache.DeletedFinalStateUnknown{Key: key.String(), Obj: object}
	}
	for _, h := range handlers {
		h.OnDelete(event)
	}
}
