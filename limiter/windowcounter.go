package limiter

import "math/bits"

// SlidingWindowCounter adds to the count of the current window that of the previous window, weighted by the part of it that the sliding window
// still overlaps. It takes two integers and has a small, one-sided error (docs/concepts/algorithms.md).
const SlidingWindowCounter Algorithm = "SlidingWindowCounter"

func windowCounterTraits() Traits {
	return Traits{
		Name: SlidingWindowCounter, MaxUnits: MaxUnits, MaxWindow: MaxWindow,
		Aligned: true, Windows: 2, Debts: true, Compact: "CompactSlidingWindowCounter",
		Script: "sliding_window_counter", RedisBytes: 200, schema: 2,
		newState: func(Limit, bool) State { return &windowCounter{} },
		unpack:   func(p Packed) State { s := unpackCounter(p); return &s },
		assume: func(p Packed, now Instant, limit Limit, used int64) (Packed, Instant) {
			s := unpackCounter(p)
			s.Assume(now, limit, used, now)
			return s.pack(), s.Expires(limit)
		},
	}
}

// windowCounter admits a cost if and only if current + previous · (window − elapsed)/window + cost ≤ limit, where elapsed is the time since
// the current window began. Windows are aligned to the epoch. Every operand except the weighted previous count is an integer, so comparing
// with the ceiling of that operand gives the same result as comparing real numbers.
type windowCounter struct {
	window            int64 // number of the current window since the epoch
	current, previous int64 // units admitted in the current window and in the one before it
}

func (s *windowCounter) Decide(now Instant, limit Limit, cost int64) Decision {
	rolled := s.roll(now, limit.micros())
	used := rolled.used()
	d := Decision{At: rolled.start() + rolled.elapsed, Limit: limit.units, Remaining: max(0, limit.units-used)}
	if free := rolled.whenFree(); free > 0 {
		d.ResetAfter = free.Sub(now)
	}
	switch {
	case used+cost <= limit.units:
		d.Allowed = true
	case cost > limit.units:
		d.RetryAfter = Never
	default:
		d.RetryAfter = rolled.whenRoom(limit.units - cost).Sub(now)
	}
	return d
}

func (s *windowCounter) Spend(now Instant, limit Limit, cost int64) {
	*s = s.roll(now, limit.micros()).windowCounter
	s.current = min(s.current+cost, MaxUnits)
}

func (s *windowCounter) Refund(now Instant, limit Limit, cost int64, spentAt Instant) {
	rolled := s.roll(now, limit.micros()).windowCounter
	var counted *int64
	switch rolled.window - int64(spentAt/limit.micros()) {
	case 0:
		counted = &rolled.current
	case 1:
		counted = &rolled.previous
	default:
		return
	}
	refunded := min(cost, *counted)
	if refunded == 0 {
		return
	}
	*counted -= refunded
	if rolled.current+rolled.previous == 0 {
		rolled = windowCounter{}
	}
	*s = rolled
}

func (s *windowCounter) Assume(now Instant, limit Limit, used int64, _ Instant) {
	rolled := s.roll(now, limit.micros())
	*s = rolled.windowCounter
	weighted := rolled.used() - rolled.current
	if weighted <= used { // the rest was spent in this window
		s.current = used - weighted
		return
	}
	s.current = 0
	s.previous, _ = mulDiv(used, int64(rolled.length), int64(rolled.length-rolled.elapsed))
}

func (s *windowCounter) Clone() State { clone := *s; return &clone }

func (s *windowCounter) Size() int { return 24 }

func (s *windowCounter) Expires(limit Limit) Instant {
	return rolled{windowCounter: *s, length: limit.micros()}.whenFree()
}

func (s *windowCounter) pack() Packed { return Packed{s.window, s.current, s.previous} }

func (s *windowCounter) unpack(p Packed) { *s = unpackCounter(p) }

func unpackCounter(p Packed) windowCounter {
	return windowCounter{window: p[0], current: p[1], previous: p[2]}
}

// rolled is a windowCounter at one instant.
type rolled struct {
	windowCounter
	length  Instant // of a window
	elapsed Instant // since the current window began, 0 … length − 1
}

func (s *windowCounter) Reset() { *s = windowCounter{} }

func (s *windowCounter) roll(now, length Instant) rolled {
	if elapsed := now - Instant(s.window)*length; elapsed >= 0 && elapsed < length { // the usual case, without a division
		return rolled{*s, length, elapsed}
	}
	if isTooFarAhead(Instant(s.window)*length, now, length) {
		s = &windowCounter{}
	}
	now = max(now, Instant(s.window)*length)
	r := rolled{length: length, elapsed: now % length}
	r.window = int64(now / length)
	switch r.window - s.window {
	case 0:
		r.current, r.previous = s.current, s.previous
	case 1:
		r.previous = s.current
	}
	return r
}

func (r rolled) start() Instant { return Instant(r.window) * r.length }

// used is current + ⌈previous · (length − elapsed)/length⌉.
func (r rolled) used() int64 {
	if r.previous == 0 {
		return r.current
	}
	quotient, remainder := mulDiv(r.previous, int64(r.length-r.elapsed), int64(r.length))
	if remainder > 0 {
		quotient++
	}
	return r.current + quotient
}

// whenFree is the instant from which on no unit counts; 0 if no unit counts now.
func (r rolled) whenFree() Instant {
	switch {
	case r.current > 0:
		return r.start() + 2*r.length
	case r.previous > 0:
		return r.start() + r.length
	default:
		return 0
	}
}

// whenRoom is the first instant at which no more than most units are used. It requires 0 ≤ most, and that more units are used now.
func (r rolled) whenRoom(most int64) Instant {
	if r.current <= most {
		return r.start() + r.weighsAtMost(r.previous, most-r.current)
	}
	return r.start() + r.length + r.weighsAtMost(r.current, most)
}

// weighsAtMost is the shortest elapsed time at which previous, weighted, is no more than most. It requires most < previous.
func (r rolled) weighsAtMost(previous, most int64) Instant {
	left, _ := mulDiv(most, int64(r.length), previous)
	return r.length - Instant(left)
}

// mulDiv is a·b/c and its remainder without overflow, for 0 ≤ a ≤ 2^30, 0 ≤ b ≤ 2^42 and a·b/c < 2^63.
func mulDiv(a, b, c int64) (quotient, remainder int64) {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	q, r := bits.Div64(hi, lo, uint64(c))
	return int64(q), int64(r)
}
