package deployment

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// appliedObjects remembers a fingerprint of each applied object, by the name of the Limiter and the object. The UID of the
// Limiter is part of the object. A lost fingerprint costs one apply
// request that changes nothing.
type appliedObjects struct {
	mu           sync.Mutex
	fingerprints map[types.NamespacedName]map[string][sha256.Size]byte
}

func (a *appliedObjects) matches(limiter types.NamespacedName, object client.Object, sum [sha256.Size]byte) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	stored, found := a.fingerprints[limiter][describe(object)]
	return found && stored == sum
}

func (a *appliedObjects) store(limiter types.NamespacedName, object client.Object, sum [sha256.Size]byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.fingerprints == nil {
		a.fingerprints = map[types.NamespacedName]map[string][sha256.Size]byte{}
	}
	if a.fingerprints[limiter] == nil {
		a.fingerprints[limiter] = map[string][sha256.Size]byte{}
	}
	a.fingerprints[limiter][describe(object)] = sum
}

func (a *appliedObjects) forget(limiter types.NamespacedName, object client.Object) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.fingerprints[limiter], describe(object))
}

func (a *appliedObjects) forgetLimiter(limiter types.NamespacedName) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.fingerprints, limiter)
}

// fields returns the object as JSON fields, without those that only the API server writes.
func fields(object client.Object) (map[string]any, error) {
	all, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", describe(object), err)
	}
	delete(all, "status")
	if metadata, is := all["metadata"].(map[string]any); is {
		delete(metadata, "creationTimestamp")
	}
	return all, nil
}

// fingerprint returns a hash of the wanted fields and of their values in the live object. Fields that other owners add to the
// live object do not change it.
func fingerprint(want, live map[string]any) [sha256.Size]byte {
	part := project(live, want)
	delete(part, "apiVersion") // objects from a cache may lack these
	delete(part, "kind")
	text, err := json.Marshal([]any{want, part})
	if err != nil { // impossible: both were decoded from JSON
		return [sha256.Size]byte{}
	}
	return sha256.Sum256(text)
}

// project returns the fields of live that also exist in shape. Only maps that other owners may extend are projected field by
// field. Other values are taken as a whole: a selector with an additional label, for example, is a different selector.
func project(live, shape map[string]any) map[string]any {
	part := make(map[string]any, len(shape))
	for name, inner := range shape {
		value, exists := live[name]
		if !exists {
			continue
		}
		part[name] = value
		wantedMap, ok := inner.(map[string]any)
		liveMap, both := value.(map[string]any)
		if ok && both && isSharedMap(name) {
			part[name] = project(liveMap, wantedMap)
		}
	}
	return part
}

// isSharedMap reports whether other owners may add fields to the map with this name.
func isSharedMap(name string) bool {
	switch name {
	case "metadata", "labels", "annotations", "spec", "template":
		return true
	default:
		return false
	}
}
