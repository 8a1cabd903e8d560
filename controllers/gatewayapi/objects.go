package gatewayapi

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"reflect"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/weir-dev/weir/internal/compile/gateway"
)

const (
	// Interval is how often the API server is queried for the kinds that it serves.
	Interval = 15 * time.Second
	// retry is the wait after such a call has failed, and while objects of a kind have not been listed.
	retry = time.Second
)

// Discovery lists the resources that an API server serves. discovery.DiscoveryClient implements it.
type Discovery interface {
	ServerResourcesForGroupVersionWithContext(ctx context.Context, groupVersion string) (*metav1.APIResourceList, error)
}

// Objects watches the kinds that the cluster has. The CRDs of the Gateway API can be installed and deleted while it runs.
type Objects struct {
	discovery Discovery
	cache     cache.Cache
	uncached  client.Reader
	interval  time.Duration
	sets      generations

	mu          sync.Mutex
	discovered  bool
	watches     map[string]watch // by resource
	unlisted    error            // why the objects of some kinds cannot be listed; nil if unknown
	subscribers []chan struct{}
}

type watch struct {
	informer cache.Informer
	stop     context.CancelFunc
}

// New returns Objects that watch nothing before Start. uncached finds out why the cache cannot list the objects of a kind.
func New(d Discovery, c cache.Cache, uncached client.Reader, interval time.Duration) *Objects {
	return &Objects{discovery: d, cache: c, uncached: uncached, interval: interval, watches: map[string]watch{}}
}

// Changed returns a channel that receives a value after what Read returns has changed.
func (o *Objects) Changed() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	c := make(chan struct{}, 1)
	o.subscribers = append(o.subscribers, c)
	return c
}

func (o *Objects) notify() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, c := range o.subscribers {
		select {
		case c <- struct{}{}:
		default: // a value is waiting already
		}
	}
}

// Start watches the kinds that the cluster has until ctx is done.
func (o *Objects) Start(ctx context.Context) error {
	for {
		wait := o.interval
		if err := o.discover(ctx); err != nil && ctx.Err() == nil {
			log.FromContext(ctx).Error(err, "Could not find out whether the cluster has the Gateway API; policies with spec.targetRefs keep their rules")
			wait = min(wait, retry)
		} else if !o.listed(ctx) {
			wait = min(wait, retry)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}

// discover starts a watch for each kind that the API server serves now, and stops those of the others.
func (o *Objects) discover(ctx context.Context) error {
	served := map[string][]metav1.APIResource{}
	for _, k := range kinds() {
		if _, known := served[k.version]; known {
			continue
		}
		list, err := o.discovery.ServerResourcesForGroupVersionWithContext(ctx, k.version)
		switch {
		case apierrors.IsNotFound(err):
			served[k.version] = nil
		case err != nil:
			return fmt.Errorf("list the resources of %s: %w", k.version, err)
		default:
			served[k.version] = list.APIResources
		}
	}
	for _, k := range kinds() {
		serves := slices.ContainsFunc(served[k.version], func(r metav1.APIResource) bool { return r.Name == k.resource })
		if err := o.setWatched(ctx, k, serves); err != nil {
			return err
		}
	}
	o.mu.Lock()
	first := !o.discovered
	o.discovered = true
	o.mu.Unlock()
	if first {
		o.notify()
	}
	return nil
}

func (o *Objects) setWatched(ctx context.Context, k kind, serves bool) error {
	o.mu.Lock()
	current, watched := o.watches[k.resource]
	o.mu.Unlock()
	switch {
	case serves && !watched:
		return o.start(ctx, k)
	case !serves && watched:
		current.stop()
		o.mu.Lock()
		delete(o.watches, k.resource)
		o.mu.Unlock()
		o.notify()
		if err := o.cache.RemoveInformer(ctx, k.object); err != nil {
			return fmt.Errorf("stop the watch of %s: %w", k.resource, err)
		}
	}
	return nil
}

func (o *Objects) start(ctx context.Context, k kind) error {
	informer, err := o.cache.GetInformer(ctx, k.object, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watch %s: %w", k.resource, err)
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(added any) {
			o.sets.add(added)
			o.notify()
		},
		DeleteFunc: func(deleted any) {
			o.sets.remove(deleted)
			o.notify()
		},
		UpdateFunc: func(before, after any) {
			if differs(o.sets.replace(before, after)) {
				o.notify()
			}
		},
	})
	if err != nil {
		return fmt.Errorf("watch %s: %w", k.resource, err)
	}
	until, stop := context.WithCancel(ctx)
	o.mu.Lock()
	o.watches[k.resource] = watch{informer, stop}
	o.mu.Unlock()
	go func() {
		if toolscache.WaitForCacheSync(until.Done(), informer.HasSynced) {
			o.notify() // there may be no objects, and no events
		}
	}()
	return nil
}

// differs reports whether policies can depend on the difference of two versions of an object. Controllers of gateways write many statuses.
func differs(before, after any) bool {
	b, isObject := before.(client.Object)
	a, alsoObject := after.(client.Object)
	if !isObject || !alsoObject {
		return true
	}
	var of [2]gateway.Objects
	convert(b, &of[0])
	convert(a, &of[1])
	return !reflect.DeepEqual(of[0], of[1]) //nolint:govet // convert sets no error
}

// listed reports whether the objects of all kinds that are watched have been listed. If not, it finds out why: the watch reports no errors, and
// retries. The reason names a missing permission.
func (o *Objects) listed(ctx context.Context) bool {
	complete := true
	var errs []error
	for _, k := range kinds() {
		if _, err := o.isListed(k); err == nil {
			continue
		}
		complete = false
		list, isList := k.list.DeepCopyObject().(client.ObjectList)
		if !isList {
			continue // not reached
		}
		if err := o.uncached.List(ctx, list, client.Limit(1)); err != nil {
			errs = append(errs, fmt.Errorf("list %s: %w", k.resource, err))
		}
	}
	reason := errors.Join(errs...)
	o.mu.Lock()
	changed := fmt.Sprint(o.unlisted) != fmt.Sprint(reason)
	o.unlisted = reason
	o.mu.Unlock()
	if changed && ctx.Err() == nil {
		if reason != nil {
			log.FromContext(ctx).Error(reason, "Could not list objects of the Gateway API; policies with spec.targetRefs keep their rules")
		}
		o.notify()
	}
	return complete
}

// Read returns the objects, and a hash that changes with them. It fails until all kinds that the cluster has are listed.
func (o *Objects) Read(ctx context.Context) (*gateway.Objects, uint64, error) {
	g := &gateway.Objects{}
	hash := uint64(1)
	for _, k := range kinds() {
		listed, err := o.isListed(k)
		if err != nil {
			return nil, 0, err
		}
		if !listed {
			if k.target != "" {
				g.Missing = append(g.Missing, k.target)
			}
			hash += maphash.String(seed, "no "+k.resource)
			continue
		}
		list, isList := k.list.DeepCopyObject().(client.ObjectList)
		if !isList {
			continue // not reached
		}
		if err := o.cache.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return nil, 0, fmt.Errorf("list %s: %w", k.resource, err)
		}
		err = meta.EachListItem(list, func(item runtime.Object) error {
			if object, is := item.(client.Object); is {
				convert(o.sets.servedBy(object), g)
				hash += maphash.String(seed, string(object.GetUID())+" "+object.GetResourceVersion()) // a sum does not depend on the order
			}
			return nil
		})
		if err != nil {
			return nil, 0, fmt.Errorf("list %s: %w", k.resource, err)
		}
	}
	return g, max(hash, 1), nil
}

// isListed reports whether the objects of a kind are known. It fails if they are not known yet.
func (o *Objects) isListed(k kind) (bool, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	w, watched := o.watches[k.resource]
	if !o.discovered || watched && !w.informer.HasSynced() {
		if o.unlisted != nil {
			return false, o.unlisted
		}
		return false, gateway.ErrGatewaysPending
	}
	return watched, nil
}

// seed makes hashes comparable within the process.
var seed = maphash.MakeSeed() //nolint:gochecknoglobals // a constant that Go cannot write as one
