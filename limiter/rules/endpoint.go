package rules

import (
	"crypto/sha256"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// OtherEndpoints is the endpoint under which a rule counts the requests to all paths beyond those that it counts by
// themselves. No path is called so: paths begin with a slash.
const OtherEndpoints = "*"

const (
	maxEndpoints    = 1000
	maxEndpointText = 128 // bytes; of longer paths the hash is remembered
)

// endpoints bounds how many of the requests' own paths a rule counts by themselves: the first 1000 that come, the others
// together as [OtherEndpoints]. Otherwise whoever asks for random paths would make a counter with each. A path that no
// request asked for throughout a window of the rule gives pattern to another, at the latest in the second: its counter then
// holds nothing that matters.
//
// What this is not: fair. Who keeps a thousand paths of junk busy holds the places, and real paths that have none share
// one counter meanwhile; each replica of a limiter gives away its own places, so a path may be counted alone by one and
// with the others by another. A rule that names its paths has neither problem.
type endpoints struct {
	window time.Duration
	known  atomic.Pointer[map[string]*endpoint] // replaced, never changed
	round  atomic.Uint32                        // of places given away anew
	// full until then, in nanoseconds of the epoch; 0: not full.
	full  atomic.Int64
	mutex sync.Mutex // held to replace known
	begun time.Time  // of the round
}

// endpoint is a path that is counted by itself.
type endpoint struct {
	round atomic.Uint32 // in which it was last asked for
}

func newEndpoints(window time.Duration) *endpoints {
	e := &endpoints{window: window}
	e.known.Store(&map[string]*endpoint{})
	return e
}

// name returns what path is counted under.
func (e *endpoints) name(path string, clock func() time.Time) string {
	key := path
	if len(path) > maxEndpointText {
		sum := sha256.Sum256([]byte(path))
		key = string(sum[:])
	}
	if known, found := (*e.known.Load())[key]; found {
		if round := e.round.Load(); known.round.Load() != round { // a store would make all cores share the line
			known.round.Store(round)
		}
		return path
	}
	now := clock()
	if now.UnixNano() < e.full.Load() || !e.add(key, now) {
		return OtherEndpoints
	}
	return path
}

// add gives key a place if there is one.
func (e *endpoints) add(key string, now time.Time) bool {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	known := *e.known.Load()
	if known[key] != nil {
		return true
	}
	if e.begun.IsZero() {
		e.begun = now
	}
	round := e.round.Load()
	full := len(known) >= maxEndpoints
	if full && now.Sub(e.begun) < e.window {
		e.full.Store(e.begun.Add(e.window).UnixNano())
		return false
	}
	next := make(map[string]*endpoint, len(known)+1)
	for path, entry := range known {
		if !full || entry.round.Load() == round {
			next[path] = entry
		}
	}
	if full {
		round++
		e.round.Store(round)
		e.begun = now
	}
	added := len(next) < maxEndpoints
	if added {
		entry := new(endpoint)
		entry.round.Store(round)
		next[strings.Clone(key)] = entry // which may be a piece of a large body
	}
	e.known.Store(&next)
	return added
}
