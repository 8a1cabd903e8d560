package limiter

import (
	"fmt"
	"time"
)

// Algorithm names how a window's units are counted. The values are those of the policy API.
type Algorithm string

const (
	// SlidingWindowLog remembers the time of every admitted unit: exact, 7 to 8 bytes a unit.
	SlidingWindowLog Algorithm = "SlidingWindowLog"
	// SlidingWindowCounter weighs the count of the previous window with the part of it that still
	// overlaps the sliding one: two integers, a small and one-sided error (see docs/algorithms.md).
	SlidingWindowCounter Algorithm = "SlidingWindowCounter"
)

// Bounds of a limit. With them every sum and, scaled, every product the algorithms form is exact in a float64,
// which is what Lua computes with.
const (
	MaxUnits    = 1_000_000_000
	MaxLogUnits = 1_000_000 // a log keeps every unit; above this it would be tens of megabytes a key
	MinWindow   = time.Second
	MaxWindow   = 720 * time.Hour
)

// Limit allows Units units per Window. Build it with [NewLimit]; the zero Limit is not valid.
type Limit struct {
	algorithm Algorithm
	units     int64
	window    time.Duration
}

// NewLimit returns the limit of units per window under algorithm. It refuses an unknown algorithm, units outside
// 1 … [MaxUnits] ([MaxLogUnits] for a log) and windows that are not whole seconds within [MinWindow] … [MaxWindow].
func NewLimit(algorithm Algorithm, units int64, window time.Duration) (Limit, error) {
	most := int64(MaxUnits)
	switch algorithm {
	case SlidingWindowCounter:
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
	return Limit{algorithm: algorithm, units: units, window: window}, nil
}

// Algorithm says how the limit is counted.
func (l Limit) Algorithm() Algorithm { return l.algorithm }

// Units is how many units the limit allows per window.
func (l Limit) Units() int64 { return l.units }

// Window is the length of the window.
func (l Limit) Window() time.Duration { return l.window }

// String reads "100 per 1m0s (SlidingWindowLog)".
func (l Limit) String() string {
	return fmt.Sprintf("%d per %v (%s)", l.units, l.window, l.algorithm)
}

// micros is the window in microseconds.
func (l Limit) micros() Instant { return Instant(l.window / time.Microsecond) }
