package limiter

import (
	"fmt"
	"time"
)

// Algorithm names how a window's units are counted. The values are those of the policy API.
type Algorithm string

const (
	// FixedWindow counts in windows aligned to the epoch: up to twice the limit may pass across a boundary.
	FixedWindow Algorithm = "FixedWindow"
	// SlidingWindowLog remembers the time of every admitted unit: exact, 7 to 8 bytes a unit.
	SlidingWindowLog Algorithm = "SlidingWindowLog"
	// SlidingWindowCounter weighs the count of the previous window with the part of it that still
	// overlaps the sliding one: two integers, a small and one-sided error (see docs/concepts/algorithms.md).
	SlidingWindowCounter Algorithm = "SlidingWindowCounter"
	// TokenBucket holds up to burst units and is refilled steadily, limit units per window.
	TokenBucket Algorithm = "TokenBucket"
	// LeakyBucket lets one unit out every window/limit and makes up to burst more wait for their turn.
	LeakyBucket Algorithm = "LeakyBucket"
)

// Bounds of a limit. With them every sum and, scaled, every product the algorithms form is exact in a float64,
// which is what Lua computes with.
const (
	MaxUnits    = 1_000_000_000
	MaxLogUnits = 1_000_000 // a log keeps every unit; above this it would be tens of megabytes a key
	MinWindow   = time.Second
	MaxWindow   = 720 * time.Hour
	// MaxDrain is the longest that a burst may take to drain: burst · window/limit.
	MaxDrain = 10 * 365 * 24 * time.Hour
)

// Limit allows Units units per Window. Build it with [NewLimit]; the zero Limit is not valid.
type Limit struct {
	algorithm Algorithm
	units     int64
	window    time.Duration
	burst     int64 // of a bucket
	atOnce    bool  // of a LeakyBucket: nothing is admitted that would have to wait
}

// NewLimit returns the limit of units per window under algorithm. It refuses an unknown algorithm, units outside
// 1 … [MaxUnits] ([MaxLogUnits] for a log) and windows that are not whole seconds within [MinWindow] … [MaxWindow].
func NewLimit(algorithm Algorithm, units int64, window time.Duration) (Limit, error) {
	most := int64(MaxUnits)
	switch algorithm {
	case FixedWindow, SlidingWindowCounter, TokenBucket, LeakyBucket:
	case SlidingWindowLog:
		most = MaxLogUnits
	default:
		return Limit{}, fmt.Errorf("unknown algorithm %q", algorithm)
	}
	if units < 1 || units > most {
		return Limit{}, fmt.Errorf("limit %d is outside 1 … %d for %s", units, most, algorithm)
	}
	if window < MinWindow || window > MaxWindow || window%time.Second != 0 {
		return Limit{}, fmt.Errorf("window %v is not a whole number of seconds within %v … %v", window, MinWindow, MaxWindow)
	}
	l := Limit{algorithm: algorithm, units: units, window: window}
	if algorithm == TokenBucket {
		l.burst = units
	}
	return l, nil
}

// WithBurst returns the limit with another burst: a TokenBucket's capacity, 1 … [MaxUnits], the limit itself by
// default; a LeakyBucket's queue depth, 0 … [MaxUnits], by default 0. It refuses the other algorithms, and bursts
// that take longer than [MaxDrain] to drain.
func (l Limit) WithBurst(burst int64) (Limit, error) {
	least := int64(1)
	switch l.algorithm {
	case TokenBucket:
	case LeakyBucket:
		least = 0
	default:
		return Limit{}, fmt.Errorf("%s has no burst", l.algorithm)
	}
	if burst < least || burst > MaxUnits {
		return Limit{}, fmt.Errorf("burst %d is outside %d … %d for %s", burst, least, MaxUnits, l.algorithm)
	}
	if burst*int64(l.window/time.Second) > l.units*int64(MaxDrain/time.Second) {
		return Limit{}, fmt.Errorf("burst %d takes longer than ten years to drain at %d per %v", burst, l.units, l.window)
	}
	l.burst = burst
	return l, nil
}

// AtOnce returns the limit as it is for who cannot hold a request back until its turn under a LeakyBucket: what would have
// to wait is denied. The counter is the same, and the other algorithms know no waiting.
func (l Limit) AtOnce() Limit {
	l.atOnce = l.algorithm == LeakyBucket
	return l
}

// IsAtOnce says whether the limit is one that [Limit.AtOnce] has changed.
func (l Limit) IsAtOnce() bool { return l.atOnce }

// Algorithm says how the limit is counted.
func (l Limit) Algorithm() Algorithm { return l.algorithm }

// Units is how many units the limit allows per window.
func (l Limit) Units() int64 { return l.units }

// Window is the length of the window.
func (l Limit) Window() time.Duration { return l.window }

// Burst is a TokenBucket's capacity or a LeakyBucket's queue depth, in units; 0 for the other algorithms.
func (l Limit) Burst() int64 { return l.burst }

// Capacity is the most units that can count at once. That of a LeakyBucket is its queue and the unit on its way out.
func (l Limit) Capacity() int64 {
	switch l.algorithm {
	case TokenBucket:
		return l.burst
	case LeakyBucket:
		return l.burst + 1
	default:
		return l.units
	}
}

// String reads "100 per 1m0s (SlidingWindowLog)".
func (l Limit) String() string {
	return fmt.Sprintf("%d per %v (%s)", l.units, l.window, l.algorithm)
}

// micros is the window in microseconds.
func (l Limit) micros() Instant { return Instant(l.window / time.Microsecond) }
