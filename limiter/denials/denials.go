// Package denials remembers which counters can admit nothing before a known moment: who asks for them again until then is
// denied without asking the store. docs/adr/0010 has the reasons.
//
// Time is an argument, of a clock that does not step: time.Now's monotonic reading.
package denials

import (
	"fmt"
	"hash/maphash"
	"sync"
	"time"

	"github.com/maypok86/otter/v2"

	"github.com/weir-dev/weir/limiter"
)

// stripes is how many counters can be forgotten without a thought of one another. Two that share a stripe lose at most
// a denial that could have been remembered.
const stripes = 256

// Denials is a memory of bounded size. It is safe for concurrent use, starts no goroutines, and needs no closing. It
// holds for one set of rules: others begin with an empty one.
type Denials struct {
	held    *otter.Cache[string, *denial] // by the counter's key
	seed    maphash.Seed
	stripes [stripes]stripe
}

// stripe orders remembering and forgetting of the counters whose hash falls on it.
type stripe struct {
	mu        sync.Mutex
	forgotten time.Time // when one of them was forgotten last
}

// New returns an empty memory of at most so many denials, one at least. When it is full, those that are asked for least
// give way.
func New(most int) *Denials {
	if most < 1 {
		panic(fmt.Sprintf("denials: New of at most %d", most))
	}
	return &Denials{
		held: otter.Must(&otter.Options[string, *denial]{
			MaximumSize: most,
			Executor:    func(tidy func()) { tidy() }, // by who happens to call, now and then, in some microseconds
		}),
		seed: maphash.MakeSeed(),
	}
}

// Find returns the decision that the store would make on an enforced charge now, if it is known to be a denial. Its
// RetryAfter and ResetAfter are never too short, and too long by a round trip to the store at most; the other figures
// are exact.
func (d *Denials) Find(c limiter.Charge, now time.Time) (decision limiter.Decision, known bool) {
	held, ok := d.held.GetIfPresent(c.Key)
	if !ok || !held.denies(c, now) {
		return limiter.Decision{}, false
	}
	return held.at(now), true
}

// Remember takes note of a decision on a charge that the store was asked for at began and gave by answered. Decisions
// that time or others can change are not kept, nor are those that may be older than the last Forget of their key.
func (d *Denials) Remember(c limiter.Charge, decision limiter.Decision, began, answered time.Time) {
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

// Forget drops what is known of a counter, because something was taken back from it before now. A decision on its way
// that was asked for before will not be remembered either.
func (d *Denials) Forget(key string, now time.Time) {
	s := d.stripe(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.forgotten.Before(now) {
		s.forgotten = now
	}
	d.held.Invalidate(key)
}

// Len is how many denials are held, those included that are over and have not given way yet.
func (d *Denials) Len() int { return d.held.EstimatedSize() }

func (d *Denials) stripe(key string) *stripe {
	return &d.stripes[maphash.String(d.seed, key)%stripes]
}
