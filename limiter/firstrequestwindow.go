//go:build sixthalgorithm

package limiter

// FirstRequestWindow counts in windows that begin with their first unit. Weir does not have this algorithm: the tag adds it, to prove what an
// algorithm takes.
const FirstRequestWindow Algorithm = "FirstRequestWindow"

func init() { //nolint:gochecknoinits // an algorithm of Weir has its row in table
	row := firstRequestWindowTraits()
	row.Number = uint8(len(table) + 1)
	table = append(table, &row)
}

func firstRequestWindowTraits() Traits {
	return Traits{
		Name: FirstRequestWindow, MaxUnits: MaxUnits, MaxWindow: MaxWindow,
		Windows: 1,
		Script:  "first_request_window", RedisBytes: 200, schema: 2,
		newState: func(Limit, bool) State { return &firstRequestWindow{} },
		unpack:   func(p Packed) State { s := unpackFirst(p); return &s },
		assume: func(p Packed, now Instant, limit Limit, used int64) (Packed, Instant) {
			s := unpackFirst(p)
			s.Assume(now, limit, used, now)
			return s.pack(), s.Expires(limit)
		},
	}
}

// firstRequestWindow admits a cost if and only if the units admitted in the current window plus the cost are within the limit.
type firstRequestWindow struct {
	opened Instant // when the first of the units was admitted
	count  int64   // units admitted in the window
}

func (s *firstRequestWindow) Decide(now Instant, limit Limit, cost int64) Decision {
	rolled := s.roll(now, limit.micros())
	end := rolled.opened + limit.micros()
	d := Decision{At: max(now, rolled.opened), Limit: limit.units, Remaining: max(0, limit.units-rolled.count)}
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

func (s *firstRequestWindow) Spend(now Instant, limit Limit, cost int64) {
	*s = s.roll(now, limit.micros())
	s.count += cost
}

func (s *firstRequestWindow) Refund(now Instant, limit Limit, cost int64, spentAt Instant) {
	rolled := s.roll(now, limit.micros())
	if rolled.count == 0 || spentAt < rolled.opened || spentAt >= rolled.opened+limit.micros() {
		return
	}
	if rolled.count -= cost; rolled.count <= 0 {
		rolled = firstRequestWindow{}
	}
	*s = rolled
}

func (s *firstRequestWindow) Assume(now Instant, limit Limit, used int64, newest Instant) {
	*s = s.roll(now, limit.micros())
	if s.count == 0 {
		s.opened = newest
	}
	s.count = used
}

func (s *firstRequestWindow) Expires(limit Limit) Instant {
	if s.count == 0 {
		return 0
	}
	return s.opened + limit.micros()
}

func (s *firstRequestWindow) Clone() State { clone := *s; return &clone }

func (s *firstRequestWindow) Size() int { return 16 }

func (s *firstRequestWindow) Reset() { *s = firstRequestWindow{} }

func (s *firstRequestWindow) pack() Packed { return Packed{int64(s.opened), s.count} }

func (s *firstRequestWindow) unpack(p Packed) { *s = unpackFirst(p) }

func unpackFirst(p Packed) firstRequestWindow {
	return firstRequestWindow{opened: Instant(p[0]), count: p[1]}
}

func (s *firstRequestWindow) roll(now, length Instant) firstRequestWindow {
	if s.count == 0 || now >= s.opened+length || isTooFarAhead(s.opened, now, length) {
		return firstRequestWindow{opened: now}
	}
	return *s // also if the clock has stepped back
}
