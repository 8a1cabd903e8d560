// Package denials caches denials of counters that can admit nothing before a known instant. Until then, requests for these
// counters are denied without a call to the store. docs/adr/0010 has the reasons.
//
// Time is an argument. Its clock must not step: use the monotonic reading of time.Now.
package denials

import (
	"fmt"
	"hash/maphash"
	"sync"
	"time"

	"github.com/maypok86/otter/v2"

	"github.com/weir-dev/weir/go/internal/limiter"
)

// stripes is the number of locks that order Remember and Forget. When one of two counters that share a stripe is forgotten, a
// denial of the other that is in flight is not cached; that costs one call to the store.
const stripes = 256

// Denials is a cache of bounded size. It is safe for concurrent use, starts no goroutines, and needs no Close. A denial is that of a rule until
// the rule changes: also if the change is reverted, because in between the counter may have admitted more.
type Denials struct {
	held    *otter.Cache[string, *denial] // by the counter's key
	seed    maphash.Seed
	stripes [stripes]stripe
}

// stripe orders Remember and Forget of the counters whose hashes select it.
type stripe struct {
	mu        sync.Mutex
	forgotten time.Time // the latest Forget of one of them
}

// New returns an empty cache for up to capacity denials, which must be positive. When the cache is full, it evicts the denials
// that are used least.
func New(capacity int) *Denials {
	if capacity < 1 {
		panic(fmt.Sprintf("denials.New: capacity %d must be positive", capacity))
	}
	return &Denials{
		held: otter.Must(&otter.Options[string, *denial]{
			MaximumSize: capacity,
			Executor:    func(maintain func()) { maintain() }, // in the calling goroutine; it takes some microseconds, now and then
		}),
		seed: maphash.MakeSeed(),
	}
}

// Find returns the decision that the store would make on an enforced charge now, if that is known to be a denial. RetryAfter and ResetAfter are
// never too short, and at most a round trip to the store too long. At is now, by the clock of the store, and at most a round trip too early. The
// other figures are exact.
func (d *Denials) Find(c *limiter.Charge, now time.Time) (decision limiter.Decision, ok bool) {
	held, ok := d.held.GetIfPresent(c.Key)
	if !ok || !held.denies(c, now) {
		return limiter.Decision{}, false
	}
	return held.decide(now), true
}

// Remember caches a decision on a charge that the store was called with at began and had answered by answered. It ignores
// decisions that other requests can change, and decisions that may be older than the latest Forget of their key.
func (d *Denials) Remember(c *limiter.Charge, decision limiter.Decision, began, answered time.Time) {
	denial := newDenial(c, decision, began, answered)
	if denial == nil {
		return
	}
	s := d.stripe(c.Key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.forgotten.Before(began) {
		d.held.Set(c.Key, denial)
	}
}

// Forget drops the denial of a counter, because units on it were refunded before now. A decision of a call that began before
// now will not be cached either.
func (d *Denials) Forget(key string, now time.Time) {
	s := d.stripe(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.forgotten.Before(now) {
		s.forgotten = now
	}
	d.held.Invalidate(key)
}

// Len is the number of cached denials, including expired ones that are not evicted yet.
func (d *Denials) Len() int { return d.held.EstimatedSize() }

func (d *Denials) stripe(key string) *stripe {
	return &d.stripes[maphash.String(d.seed, key)%stripes]
}
