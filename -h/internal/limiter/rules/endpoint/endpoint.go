// Package endpoint bounds the number of request paths that a rule counts separately.
package endpoint

import (
	"crypto/sha256"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-dev/weir/go/internal/limiter/rules"
)

const (
	// Max is the number of paths that a rule counts separately.
	Max             = 1000
	maxEndpointText = 128 // bytes; a longer path is stored as its hash
)

// Set bounds the number of request paths that a rule counts separately: the first 1000 paths, and all others together as
// [rules.OtherEndpoints]. Otherwise a client that requests random paths would create a counter with each request. A path that no request used
// for a whole window of the rule is evicted when another path needs its slot, at the latest in the second window. Its counter no
// longer matters then.
//
// The bound is not fair. A client that keeps a thousand useless paths active occupies all slots, and real paths without a slot share one
// counter. Each replica of a limiter assigns its own slots, so one replica can count a path separately while another does not. Rules
// with explicit paths have neither problem.
type Set struct {
	window time.Duration
	most   int // paths
	// snapshot has paths that can be read without the mutex. It is replaced, never modified.
	snapshot atomic.Pointer[map[string]*endpoint]
	// generation increases each time unused paths are evicted.
	generation atomic.Uint32
	// fullUntil is the earliest time of the next eviction, in nanoseconds since the epoch; 0 if a slot is free.
	fullUntil atomic.Int64
	mutex     sync.Mutex           // protects the fields below
	paths     map[string]*endpoint // all of them; the same as the snapshot if no slot is free
	missed    int                  // uses that the snapshot did not have, since it was replaced
	started   time.Time            // of the generation; zero for the first
}

// endpoint is a path that is counted separately.
type endpoint struct {
	generation atomic.Uint32 // in which a request last used it
}

// New returns an empty Set for a rule with this window. It counts the given number of paths separately.
func New(window time.Duration, most int) *Set {
	e := &Set{window: window, most: most, paths: map[string]*endpoint{}}
	e.snapshot.Store(&map[string]*endpoint{})
	return e
}

// Name returns the endpoint under which path is counted.
func (e *Set) Name(path string, clock func() time.Time) string {
	key := endpointKey(path)
	if existing, found := (*e.snapshot.Load())[key]; found {
		if generation := e.generation.Load(); existing.generation.Load() != generation { // an unconditional store would contend for the cache line
			existing.generation.Store(generation)
		}
		return path
	}
	now := clock()
	if now.UnixNano() < e.fullUntil.Load() || !e.add(key, now) {
		return rules.OtherEndpoints
	}
	return path
}

func endpointKey(path string) string {
	if len(path) > maxEndpointText {
		sum := sha256.Sum256([]byte(path))
		return string(sum[:])
	}
	return path
}

// Peek returns the endpoint under which path would be counted. It assigns no slot, and is no use of path.
func (e *Set) Peek(path string, clock func() time.Time) string {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	if e.paths[endpointKey(path)] != nil || len(e.paths) < e.most {
		return path
	}
	if clock().Sub(e.started) < e.window {
		return rules.OtherEndpoints
	}
	generation := e.generation.Load()
	for _, entry := range e.paths {
		if entry.generation.Load() != generation {
			return path // which would be assigned the slot of entry
		}
	}
	return rules.OtherEndpoints
}

// add assigns a slot to key unless it has one, and returns false if all slots are in use.
func (e *Set) add(key string, now time.Time) bool {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	entry := e.paths[key]
	if entry == nil {
		if len(e.paths) >= e.most && !e.evict(now) {
			return false
		}
		entry = new(endpoint)
		e.paths[strings.Clone(key)] = entry // key may be part of a large request body
	}
	entry.generation.Store(e.generation.Load())
	if e.missed++; e.missed >= len(e.paths) || len(e.paths) >= e.most { // so that a use copies about one path
		e.publish()
	}
	return true
}

// evict evicts the paths that were not used in this generation, and returns false if all of them were, or if the window has not ended.
func (e *Set) evict(now time.Time) bool {
	if now.Sub(e.started) < e.window {
		e.fullUntil.Store(e.started.Add(e.window).UnixNano())
		return false
	}
	generation := e.generation.Load()
	maps.DeleteFunc(e.paths, func(_ string, entry *endpoint) bool { return entry.generation.Load() != generation })
	e.generation.Store(generation + 1)
	e.started = now
	e.publish()
	return len(e.paths) < e.most
}

// publish replaces the snapshot.
func (e *Set) publish() {
	e.snapshot.Store(new(maps.Clone(e.paths)))
	e.missed = 0
}
