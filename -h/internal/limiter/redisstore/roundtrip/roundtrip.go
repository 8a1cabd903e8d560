// Package roundtrip measures the way to a Redis node, and says how many batches keep it busy.
package roundtrip

import "time"

const (
	// minInFlight batches keep a near Redis busy: one runs there while the other is on its way.
	minInFlight = 2
	// mostInFlight leaves connections of the pool, ten with one CPU, for calls that are not batched.
	mostInFlight = 8
	// tripWindow is how long a round trip counts at least.
	tripWindow = time.Second
)

// Times finds the shortest recent round trip to a Redis node. Most round trips also contain the time that this process
// takes to read the reply. The shortest does not.
type Times struct {
	current, previous time.Duration // shortest of this window and of the one before; 0 without a round trip
	endsAt            time.Time     // end of this window
}

// Add adds a round trip that ended now.
func (r *Times) Add(now time.Time, took time.Duration) {
	if !now.Before(r.endsAt) {
		r.previous, r.current, r.endsAt = r.current, 0, now.Add(tripWindow)
	}
	if r.current == 0 || took < r.current {
		r.current = took
	}
}

// Shortest is 0 before the first round trip.
func (r *Times) Shortest() time.Duration {
	if r.previous == 0 || r.current != 0 && r.current < r.previous {
		return r.current
	}
	return r.previous
}

// MaxInFlight is how many batches can be in flight. A full batch takes Redis less than a millisecond, so a Redis that is
// farther from this process needs another batch for each millisecond of the way.
func (r *Times) MaxInFlight() int {
	return min(minInFlight+int(r.Shortest()/time.Millisecond), mostInFlight)
}
