package limiter

// FixedWindow counts in windows that are aligned to the epoch. Around a boundary it admits up to twice the limit.
const FixedWindow Algorithm = "FixedWindow"

func fixedWindowTraits() Traits {
	return Traits{
		Name: FixedWindow, MaxUnits: MaxUnits, MaxWindow: MaxFixedWindow,
		Aligned: true, Windows: 1, Debts: true, Compact: "CompactFixedWindow",
		Script: "fixed_window", RedisBytes: 200, schema: 2,
		newState: func(Limit, bool) State { return &fixedWindow{} },
		unpack:   func(p Packed) State { s := unpackFixed(p); return &s },
		assume: func(p Packed, now Instant, limit Limit, used int64) (Packed, Instant) {
			s := unpackFixed(p)
			s.Assume(now, limit, used, now)
			return s.pack(), s.Expires(limit)
		},
	}
}

// fixedWindow admits a cost if and only if the units admitted in the current window plus the cost are within the limit. Windows are
// aligned to the epoch.
type fixedWindow struct {
	window int64 // number of the window since the epoch
	count  int64 // units admitted in it
}

func (s *fixedWindow) Decide(now Instant, limit Limit, cost int64) Decision {
	rolled := s.roll(now, limit.micros())
	end := Instant(rolled.window+1) * limit.micros()
	d := Decision{At: max(now, end-limit.micros()), Limit: limit.units, Remaining: max(0, limit.units-rolled.count)}
	if rolled.count > 0 {
		d.ResetAfter = end.Sub(now)
	}
	switch {
	case rolled.count+cost <= limit.units:
		d.Allowed = true
	case cost > limit.units:
		d.RetryAfter = Never
	default:
		d.RetryAfter = end.Sub(now)
	}
	return d
}

func (s *fixedWindow) Spend(now Instant, limit Limit, cost int64) {
	*s = s.roll(now, limit.micros())
	s.count = min(s.count+cost, MaxUnits)
}

func (s *fixedWindow) Refund(now Instant, limit Limit, cost int64, spentAt Instant) {
	rolled := s.roll(now, limit.micros())
	refunded := min(cost, rolled.count)
	if rolled.window != int64(spentAt/limit.micros()) || refunded == 0 {
		return
	}
	rolled.count -= refunded
	if rolled.count == 0 {
		rolled = fixedWindow{}
	}
	*s = rolled
}

func (s *fixedWindow) Assume(now Instant, limit Limit, used int64, _ Instant) {
	*s = s.roll(now, limit.micros())
	s.count = used
}

func (s *fixedWindow) Clone() State { clone := *s; return &clone }

func (s *fixedWindow) Size() int { return 16 }

func (s *fixedWindow) Expires(limit Limit) Instant {
	if s.count == 0 {
		return 0
	}
	return Instant(s.window+1) * limit.micros()
}

func (s *fixedWindow) Reset() { *s = fixedWindow{} }

func (s *fixedWindow) pack() Packed { return Packed{s.window, s.count} }

func (s *fixedWindow) unpack(p Packed) { *s = unpackFixed(p) }

func unpackFixed(p Packed) fixedWindow { return fixedWindow{window: p[0], count: p[1]} }

func (s *fixedWindow) roll(now, length Instant) fixedWindow {
	begin := Instant(s.window) * length
	if now-begin >= length || isTooFarAhead(begin, now, length) {
		return fixedWindow{window: int64(now / length)}
	}
	return *s // also if the clock has stepped back
}
