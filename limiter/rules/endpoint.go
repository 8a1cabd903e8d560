package rules

import (
	"crypto/sha256"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// OtherEndpoints is the endpoint under which a rule counts requests to paths beyond the first 1000. It is not a valid path, because paths
// begin with a slash.
const OtherEndpoints = "*"

const (
	maxEndpoints    = 1000
	maxEndpointText = 128 // bytes; a longer path is stored as its hash
)

// endpoints bounds the number of request paths that a rule counts separately: the first 1000 paths, and all others together as
// [OtherEndpoints]. Otherwise a client that requests random paths would create a counter with each request. A path that no request used
// for a whole window of the rule is evicted when another path needs its slot, at the latest in the second window. Its counter no
// longer matters then.
//
// The bound is not fair. A client that keeps a thousand useless paths active occupies all slots, and real paths without a slot share one
// counter. Each replica of a limiter assigns its own slots, so one replica can count a path separately while another does not. Rules
// with explicit paths have neither problem.
type endpoints struct {
	window time.Duration
	most   int                                  // paths
	paths  atomic.Pointer[map[string]*endpoint] // replaced, never modified
	// generation increases each time unused paths are evicted.
	generation atomic.Uint32
	// fullUntil is the earliest time of the next eviction, in nanoseconds since the epoch; 0 if a slot is free.
	fullUntil atomic.Int64
	mutex     sync.Mutex // protects the replacement of paths
	started   time.Time  // of the generation; zero for the first
}

// endpoint is a path that is counted separately.
type endpoint struct {
	generation atomic.Uint32 // in which a request last used it
}

func newEndpoints(window time.Duration, most int) *endpoints {
	e := &endpoints{window: window, most: most}
	e.paths.Store(&map[string]*endpoint{})
	return e
}

// name returns the endpoint under which path is counted.
func (e *endpoints) name(path string, clock func() time.Time) string {
	key := endpointKey(path)
	if known, found := (*e.paths.Load())[key]; found {
		if generation := e.generation.Load(); known.generation.Load() != generation { // an unconditional store would contend for the cache line
			known.generation.Store(generation)
		}
		return path
	}
	now := clock()
	if now.UnixNano() < e.fullUntil.Load() || !e.add(key, now) {
		return OtherEndpoints
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

// peek returns the endpoint under which path would be counted. It assigns no slot, and is no use of path.
func (e *endpoints) peek(path string, clock func() time.Time) string {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	paths := *e.paths.Load()
	if paths[endpointKey(path)] != nil || len(paths) < e.most {
		return path
	}
	if clock().Sub(e.started) < e.window {
		return OtherEndpoints
	}
	generation := e.generation.Load()
	for _, entry := range paths {
		if entry.generation.Load() != generation {
			return path // which would be assigned the slot of entry
		}
	}
	return OtherEndpoints
}

// add assigns a slot to key, and returns false if all slots are in use.
func (e *endpoints) add(key string, now time.Time) bool {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	paths := *e.paths.Load()
	if paths[key] != nil {
		return true
	}
	generation := e.generation.Load()
	full := len(paths) >= e.most
	if full && now.Sub(e.started) < e.window {
		e.fullUntil.Store(e.started.Add(e.window).UnixNano())
		return false
	}
	next := make(map[string]*endpoint, len(paths)+1)
	for path, entry := range paths {
		if !full || entry.generation.Load() == generation {
			next[path] = entry
		}
	}
	if full {
		generation++
		e.generation.Store(generation)
		e.started = now
	}
	added := len(next) < e.most
	if added {
		entry := new(endpoint)
		entry.generation.Store(generation)
		next[strings.Clone(key)] = entry // key may be part of a large request body
	}
	e.paths.Store(&next)
	return added
}
