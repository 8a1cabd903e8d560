package limiter

import (
	"fmt"
	"time"
)

// Bounds of a limit. Within them, every sum and every (scaled) product that the algorithms compute is exact in a float64, the number type
// of Lua.
const (
	MaxUnits    = 1_000_000_000
	MaxLogUnits = 1_000_000 // a log stores every unit; more units would take tens of megabytes per key
	MinWindow   = time.Second
	MaxWindow   = 720 * time.Hour
	// MaxFixedWindow is the longest window of FixedWindow, which multiplies no units by times.
	MaxFixedWindow = 365 * 24 * time.Hour
	// MaxDrain is the longest time that a burst may take to drain: burst · window/limit.
	MaxDrain = 10 * 365 * 24 * time.Hour
)

// Limit allows Units units per Window. Build it with [NewLimit]; the zero Limit is not valid. A limit of 0 units denies everything, see
// [Limit.Blocks].
type Limit struct {
	traits   *Traits // nil in the zero Limit
	units    int64
	window   time.Duration
	burst    int64 // if units drain
	bounded  bool  // of a queue: a charge waits at most maxDelay
	maxDelay time.Duration
}

// NewLimit returns the limit of units per window under algorithm. It returns an error for an unknown algorithm, units outside
// 0 … [MaxUnits] ([MaxLogUnits] for a log), and windows that are not whole seconds within [MinWindow] … [MaxWindow]
// ([MaxFixedWindow] for FixedWindow).
func NewLimit(algorithm Algorithm, units int64, window time.Duration) (Limit, error) {
	traits := algorithm.Traits()
	if traits == &unknown {
		return Limit{}, fmt.Errorf("unknown algorithm %q", algorithm)
	}
	if units < 0 || units > traits.MaxUnits {
		return Limit{}, fmt.Errorf("limit %d is outside 0 … %d for %s", units, traits.MaxUnits, algorithm)
	}
	if window < MinWindow || window > traits.MaxWindow || window%time.Second != 0 {
		return Limit{}, fmt.Errorf("window %v is not a whole number of seconds within %v … %v", window, MinWindow, traits.MaxWindow)
	}
	l := Limit{traits: traits, units: units, window: window}
	if traits.Drains && !traits.Queues {
		l.burst = units
	}
	return l, nil
}

// WithBurst returns the limit with another burst. The burst of a TokenBucket is its capacity, 1 … [MaxUnits], by default the limit's units.
// The burst of a LeakyBucket is the length of its queue, 0 … [MaxUnits], by default 0. It returns an error for the other algorithms, and
// for bursts that take longer than [MaxDrain] to drain. A limit of 0 units ignores its burst.
func (l Limit) WithBurst(burst int64) (Limit, error) {
	traits, least := l.Traits(), int64(1)
	if traits.Queues {
		least = 0
	}
	if !traits.Drains {
		return Limit{}, fmt.Errorf("%s has no burst", traits.Name)
	}
	if burst < least || burst > MaxUnits {
		return Limit{}, fmt.Errorf("burst %d is outside %d … %d for %s", burst, least, MaxUnits, traits.Name)
	}
	if l.Blocks() {
		return l, nil
	}
	if burst*int64(l.window/time.Second) > l.units*int64(MaxDrain/time.Second) {
		return Limit{}, fmt.Errorf("burst %d takes longer than ten years to drain at %d per %v", burst, l.units, l.window)
	}
	l.burst = burst
	return l, nil
}

// NoDelay returns the limit for a caller that cannot delay a request until its turn under a LeakyBucket: a charge that would have to wait
// is denied. The counter is the same. For the other algorithms, NoDelay returns the limit unchanged, because they never delay.
func (l Limit) NoDelay() Limit { return l.withMaxDelay(0) }

// longestBound is the longest delay that WithMaxDelay supports. Stores transmit a bound as 21 bits of milliseconds.
const longestBound = 30 * time.Minute

// WithMaxDelay returns the limit for a caller that can delay a request by at most d: under a LeakyBucket, a charge that would have to wait
// longer is denied. The bound is rounded down to milliseconds. The limit is unchanged if no charge waits longer than d, or d is longer
// than 30 minutes.
func (l Limit) WithMaxDelay(d time.Duration) Limit {
	longest := float64(l.burst) * float64(l.window) / float64(l.units) // of a charge
	if d > longestBound || float64(d-time.Millisecond) > longest {
		return l
	}
	return l.withMaxDelay(max(d, 0).Truncate(time.Millisecond))
}

func (l Limit) withMaxDelay(d time.Duration) Limit {
	if l.Traits().Queues && !l.Blocks() {
		l.bounded, l.maxDelay = true, d
	}
	return l
}

// MaxDelay returns the bound that [Limit.NoDelay] or [Limit.WithMaxDelay] has set.
func (l Limit) MaxDelay() (d time.Duration, bounded bool) { return l.maxDelay, l.bounded }

// Algorithm is how units are counted.
func (l Limit) Algorithm() Algorithm { return l.Traits().Name }

// Traits returns the traits of the algorithm.
func (l Limit) Traits() *Traits {
	if l.traits == nil {
		return &unknown
	}
	return l.traits
}

// Blocks reports whether the limit has 0 units. It denies every charge, also one of 0 units, and has no counter: the caller denies, and calls no
// Store.
func (l Limit) Blocks() bool { return l.traits != nil && l.units == 0 }

// WithoutUnits returns the limit with 0 units.
func (l Limit) WithoutUnits() Limit { return Limit{traits: l.traits, window: l.window} }

// Units is the number of units per window.
func (l Limit) Units() int64 { return l.units }

// Window is the length of the window.
func (l Limit) Window() time.Duration { return l.window }

// Burst is the capacity of a TokenBucket or the queue length of a LeakyBucket, in units; 0 for the other algorithms.
func (l Limit) Burst() int64 { return l.burst }

// Capacity is the largest number of units that can count at the same time. For a LeakyBucket it is the queue and the unit that leaves it.
func (l Limit) Capacity() int64 {
	switch traits := l.Traits(); {
	case l.Blocks():
		return 0
	case traits.Queues:
		return l.burst + 1
	case traits.Drains:
		return l.burst
	default:
		return l.units
	}
}

// LongestWait is the longest RetryAfter of a denial that can end, and the longest Delay, whatever was spent on the counter.
func (l Limit) LongestWait() time.Duration {
	traits := l.Traits()
	if !traits.Drains || l.Blocks() {
		return time.Duration(traits.Windows) * l.window
	}
	return l.drainTime(l.Capacity())
}

// drainTime is the time in which units drain, rounded up to microseconds.
func (l Limit) drainTime(units int64) time.Duration {
	micros, rest := mulDiv(units, int64(l.micros()), l.units)
	if rest > 0 {
		micros++
	}
	return time.Duration(micros) * time.Microsecond
}

// String returns, for example, "100 per 1m0s (SlidingWindowLog)".
func (l Limit) String() string {
	return fmt.Sprintf("%d per %v (%s)", l.units, l.window, l.Algorithm())
}

// micros is the window in microseconds.
func (l Limit) micros() Instant { return Instant(l.window / time.Microsecond) }
