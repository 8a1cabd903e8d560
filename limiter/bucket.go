package limiter

import "time"

const (
	// TokenBucket holds up to burst units and is refilled steadily with limit units per window.
	TokenBucket Algorithm = "TokenBucket"
	// LeakyBucket admits one unit every window/limit. Up to burst more units wait for their turn.
	LeakyBucket Algorithm = "LeakyBucket"
)

func tokenBucketTraits() Traits {
	return Traits{
		Name: TokenBucket, MaxUnits: MaxUnits, MaxWindow: MaxWindow,
		Drains: true,
		Script: "bucket", RedisBytes: 220, schema: 2,
		newState: func(Limit, bool) State { return &bucket{} },
		unpack:   func(p Packed) State { s := unpackBucket(p); return &s },
		assume: func(p Packed, now Instant, limit Limit, used int64) (Packed, Instant) {
			s := unpackBucket(p)
			s.Assume(now, limit, used, now)
			return s.pack(), s.Expires(limit)
		},
	}
}

func leakyBucketTraits() Traits {
	traits := tokenBucketTraits()
	traits.Name, traits.Queues = LeakyBucket, true
	return traits
}

// bucket is the state of TokenBucket and LeakyBucket: the generic cell rate algorithm, counted in units instead of time. Its level rises
// by the cost of admitted charges and falls steadily by limit units per window. A charge is admitted if and only if the level plus its
// cost is within the capacity. In a TokenBucket the level is the number of missing tokens. In a LeakyBucket it is the number of waiting
// units: the time until it is 0 is the delay of the next charge, and a charge that cannot wait that long is denied.
type bucket struct {
	raisedAt    Instant // when the level was last raised
	whole, part int64   // the level then: whole + part/window units, the window in microseconds
	ends        Instant // when the level has fallen to 0; a limit that is lowered later does not delay it
}

func (s *bucket) Decide(now Instant, limit Limit, cost int64) Decision {
	capacity := limit.Capacity()
	level := s.sink(now, limit)
	d := Decision{At: level.raisedAt, Limit: limit.units, Remaining: capacity - level.used()}
	if level.used() > 0 {
		d.ResetAfter = level.drained(0, limit).Sub(now)
	}
	room := capacity - cost
	var late time.Duration // by how much the charge would wait too long
	if limit.bounded && cost > 0 {
		late = d.ResetAfter - limit.maxDelay
	}
	switch {
	case level.used() <= room && late <= 0:
		d.Allowed = true
		if limit.Traits().Queues && cost > 0 {
			d.Delay = d.ResetAfter
		}
	case room < 0:
		d.RetryAfter = Never
	case level.used() <= room:
		d.RetryAfter = late
	default:
		d.RetryAfter = max(level.drained(room, limit).Sub(now), late)
	}
	return d
}

func (s *bucket) Spend(now Instant, limit Limit, cost int64) {
	*s = s.sink(now, limit)
	s.whole += cost
	s.ends = s.raisedAt + s.drain(0, limit)
}

// Refund refunds the part of the cost that cannot have drained since: at least that many whole units are left of it.
func (s *bucket) Refund(now Instant, limit Limit, cost int64, spentAt Instant) {
	level := s.sink(now, limit)
	spent := bucket{raisedAt: spentAt, whole: cost, ends: level.ends}
	spent = spent.sink(level.raisedAt, limit)
	if level.used() == 0 || spent.whole == 0 || spentAt > level.raisedAt { // spent before the counter started over
		return
	}
	level.whole -= spent.whole
	if level.whole < 0 || level.used() == 0 {
		*s = bucket{}
		return
	}
	level.ends = level.drained(0, limit)
	*s = level
}

func (s *bucket) Assume(now Instant, limit Limit, used int64, _ Instant) {
	*s = s.sink(now, limit)
	if used == s.used() {
		return
	}
	s.whole, s.part = used, 0
	s.ends = s.raisedAt + s.drain(0, limit)
}

func (s *bucket) Clone() State { clone := *s; return &clone }

func (s *bucket) Reset() { *s = bucket{} }

func (s *bucket) Size() int { return 32 }

func (s *bucket) Expires(Limit) Instant { return s.ends }

func (s *bucket) pack() Packed { return Packed{int64(s.raisedAt), s.whole, s.part, int64(s.ends)} }

func (s *bucket) unpack(p Packed) { *s = unpackBucket(p) }

func unpackBucket(p Packed) bucket {
	return bucket{raisedAt: Instant(p[0]), whole: p[1], part: p[2], ends: Instant(p[3])}
}

// used is the level rounded up.
func (s *bucket) used() int64 {
	if s.part > 0 {
		return s.whole + 1
	}
	return s.whole
}

// sink is the bucket at now, never above the capacity: after the burst was lowered, the level is at most the lower burst.
func (s *bucket) sink(now Instant, limit Limit) bucket {
	window := limit.micros()
	if isTooFarAhead(s.raisedAt, now, window) {
		return bucket{raisedAt: now}
	}
	elapsed := max(0, now-s.raisedAt)
	if now >= s.ends {
		return bucket{raisedAt: s.raisedAt + elapsed}
	}
	windows, rest := int64(0), int64(elapsed)
	if elapsed >= window {
		windows, rest = int64(elapsed/window), int64(elapsed%window)
	}
	if windows > s.whole { // the level falls by at least one unit per window
		return bucket{raisedAt: s.raisedAt + elapsed}
	}
	level := bucket{raisedAt: s.raisedAt + elapsed, whole: s.whole, part: s.part, ends: s.ends}
	if capacity := limit.Capacity(); level.whole >= capacity { // as if the lower burst had applied when this was stored
		level.whole, level.part = capacity, 0
	}
	sunk, sunkPart := mulDiv(limit.units, rest, int64(window))
	level.whole, level.part = level.whole-windows*limit.units-sunk, level.part-sunkPart
	if level.part < 0 {
		level.whole, level.part = level.whole-1, level.part+int64(window)
	}
	if level.whole < 0 {
		level.whole, level.part = 0, 0
	}
	return level
}

// drained is the instant at which the level has fallen to most, which must not be above it.
func (s *bucket) drained(most int64, limit Limit) Instant {
	return min(s.raisedAt+s.drain(most, limit), s.ends)
}

// drain is the time that the level takes to fall to most at the limit's rate.
func (s *bucket) drain(most int64, limit Limit) Instant {
	// ⌈((whole − most) · window + part) / limit⌉
	quotient, remainder := mulDiv(s.whole-most, int64(limit.micros()), limit.units)
	return Instant(quotient + (remainder+s.part+limit.units-1)/limit.units)
}
