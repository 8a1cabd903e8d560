package gatewayapi

import (
	"maps"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// maxGenerations is the number of generations of a ListenerSet that are kept while its gateway has not observed them.
const maxGenerations = 32

// generations keeps the specs of ListenerSets that their gateways serve. The spec of a ListenerSet that a tenant edits all the time is never the one of
// its status: without the earlier specs, the tenant could leave the limits of the Gateway by constant edits.
type generations struct {
	mu   sync.Mutex
	sets map[types.UID]*setGenerations
}

type setGenerations struct {
	specs map[int64]gatewayv1.ListenerSetSpec // by generation, from the observed one on
	// served is the latest version with the spec that the gateway had observed; nil if it is unknown.
	served *gatewayv1.ListenerSet
}

// serve returns the ListenerSet with the spec of the generation that its gateway has observed. If this spec is not known, it returns the last version
// for which it was. It returns o if there is no such version.
func (g *generations) serve(o *gatewayv1.ListenerSet) *gatewayv1.ListenerSet {
	g.mu.Lock()
	defer g.mu.Unlock()
	set := g.sets[o.UID]
	if set == nil {
		set = &setGenerations{specs: map[int64]gatewayv1.ListenerSetSpec{}}
		if g.sets == nil {
			g.sets = map[types.UID]*setGenerations{}
		}
		g.sets[o.UID] = set
	}
	observed := observedGeneration(o)
	if len(set.specs) < maxGenerations || o.Generation == observed {
		set.specs[o.Generation] = o.Spec
	}
	spec, known := set.specs[observed]
	switch {
	case known && (set.served == nil || set.served.Generation <= observed):
		served := *o
		served.Spec, served.Generation = spec, observed
		set.served = &served
		maps.DeleteFunc(set.specs, func(generation int64, _ gatewayv1.ListenerSetSpec) bool { return generation < observed })
	case set.served == nil:
		return o
	}
	return set.served
}

// servedBy returns the version of an object that its gateway serves, which for other kinds than ListenerSet is the object.
func (g *generations) servedBy(object client.Object) client.Object {
	if set, is := object.(*gatewayv1.ListenerSet); is {
		return g.serve(set)
	}
	return object
}

// add keeps the spec of a new object of the cache.
func (g *generations) add(object any) {
	if set, is := object.(*gatewayv1.ListenerSet); is {
		g.serve(set)
	}
}

// replace keeps the spec of a changed object of the cache. It returns the versions that its gateway served before and serves now.
func (g *generations) replace(before, after any) (served, serves any) {
	set, is := after.(*gatewayv1.ListenerSet)
	if !is {
		return before, after
	}
	g.mu.Lock()
	of := g.sets[set.UID]
	if of != nil && of.served != nil {
		before = of.served
	}
	g.mu.Unlock()
	return before, g.serve(set)
}

// remove forgets a deleted object of the cache.
func (g *generations) remove(object any) {
	if unknown, is := object.(toolscache.DeletedFinalStateUnknown); is {
		object = unknown.Obj
	}
	if set, is := object.(*gatewayv1.ListenerSet); is {
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.sets, set.UID)
	}
}

// observedGeneration returns the generation that the gateway of a ListenerSet has accepted or rejected, that of the object if the status does not have
// it, and 0 if the gateway has written no status.
func observedGeneration(o *gatewayv1.ListenerSet) int64 {
	accepted := meta.FindStatusCondition(o.Status.Conditions, string(gatewayv1.ListenerSetConditionAccepted))
	switch {
	case accepted == nil:
		return 0
	case accepted.ObservedGeneration == 0:
		return o.Generation
	default:
		return accepted.ObservedGeneration
	}
}
