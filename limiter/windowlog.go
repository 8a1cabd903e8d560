package limiter

import (
	"slices"
	"sort"
)

// windowLog admits iff the units admitted in (now − window, now] plus the cost stay within the limit.
// A unit admitted at t stops counting at t + window.
type windowLog struct {
	units []Instant // when each unit was admitted, oldest first
}

func (s *windowLog) Decide(now Instant, limit Limit, cost int64) Decision {
	window := limit.micros()
	live := s.live(now, window)
	used := int64(len(live))
	d := Decision{At: s.clamp(now), Limit: limit.units, Remaining: max(0, limit.units-used)}
	if used > 0 {
		d.ResetAfter = (live[used-1] + window).Sub(now)
	}
	excess := used + cost - limit.units
	switch {
	case excess <= 0:
		d.Allowed = true
	case cost > limit.units:
		d.RetryAfter = Never
	default: // once the oldest excess units have left the window
		d.RetryAfter = (live[excess-1] + window).Sub(now)
	}
	return d
}

func (s *windowLog) Spend(now Instant, limit Limit, cost int64) {
	s.units = s.live(now, limit.micros())
	now = s.clamp(now)
	for range cost {
		s.units = append(s.units, now)
	}
}

func (s *windowLog) Refund(now Instant, limit Limit, cost int64, at Instant) {
	live := s.live(now, limit.micros())
	first, _ := slices.BinarySearch(live, at)
	last, _ := slices.BinarySearch(live, at+1)
	last = first + int(min(cost, int64(last-first)))
	if last > first {
		s.units = slices.Delete(live, first, last)
	}
}

func (s *windowLog) Expires(limit Limit) Instant {
	if len(s.units) == 0 {
		return 0
	}
	return s.units[len(s.units)-1] + limit.micros()
}

// live is the part of the log that still counts at now.
func (s *windowLog) live(now, window Instant) []Instant {
	now = s.clamp(now)
	expired := sort.Search(len(s.units), func(i int) bool { return s.units[i]+window > now })
	return s.units[expired:]
}

func (s *windowLog) clamp(now Instant) Instant {
	if len(s.units) == 0 {
		return now
	}
	return max(now, s.units[len(s.units)-1])
}
