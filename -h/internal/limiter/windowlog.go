package limiter

import "sort"

// SlidingWindowLog stores the time of every admitted request. It is exact and takes 7 to 8 bytes per request.
const SlidingWindowLog Algorithm = "SlidingWindowLog"

// coarseInstants is the number of instants per window that a coarse log distinguishes.
const coarseInstants = 64

func windowLogTraits() Traits {
	return Traits{
		Name: SlidingWindowLog, MaxUnits: MaxLogUnits, MaxWindow: MaxWindow,
		Windows: 1, Log: true,
		Script: "sliding_window_log", RedisBytes: 208, schema: 3, // runs of units
		newState: func(limit Limit, coarse bool) State {
			if coarse {
				return &windowLog{grain: limit.micros() / coarseInstants}
			}
			return &windowLog{}
		},
	}
}

// windowLog admits a cost if and only if the units admitted in (now − window, now] plus the cost are within the limit. A unit admitted at t
// stops counting at t + window.
type windowLog struct {
	// grain merges admissions that are at most this far apart, at the instant of the last. Merged units count longer by up to grain, and
	// never shorter. 0 keeps every instant.
	grain Instant
	// dropped is the number of units admitted before the first of runs.
	dropped int64
	runs    []run // oldest first
}

// run is a number of units that count as admitted at one instant.
type run struct {
	first, latest Instant // they were admitted in [first, latest], and count as admitted at its end
	sum           int64   // of the units of this run and of all before it
}

func (s *windowLog) Decide(now Instant, limit Limit, cost int64) Decision {
	window := limit.micros()
	live, used := s.live(now, window)
	d := Decision{At: live.clamp(now), Limit: limit.units, Remaining: max(0, limit.units-used)}
	if used > 0 {
		d.ResetAfter = (live.runs[len(live.runs)-1].latest + window).Sub(now)
	}
	excess := used + cost - limit.units
	switch {
	case excess <= 0:
		d.Allowed = true
	case cost > limit.units:
		d.RetryAfter = Never
	default: // when the oldest excess units have left the window
		last := sort.Search(len(live.runs), func(i int) bool { return live.runs[i].sum-live.dropped >= excess })
		d.RetryAfter = (live.runs[last].latest + window).Sub(now)
	}
	return d
}

func (s *windowLog) Spend(now Instant, limit Limit, cost int64) {
	*s, _ = s.live(now, limit.micros())
	if cost == 0 {
		return
	}
	now = s.clamp(now)
	if last := len(s.runs) - 1; last >= 0 && now-s.runs[last].first <= s.grain {
		s.runs[last].latest, s.runs[last].sum = now, s.runs[last].sum+cost
		return
	}
	s.runs = append(s.runs, run{first: now, latest: now, sum: s.sum() + cost})
}

func (s *windowLog) Refund(now Instant, limit Limit, cost int64, spentAt Instant) {
	live, _ := s.live(now, limit.micros())
	i := sort.Search(len(live.runs), func(i int) bool { return live.runs[i].latest >= spentAt })
	if i == len(live.runs) || live.runs[i].first > spentAt {
		return
	}
	*s = live
	s.take(i, cost)
}

func (s *windowLog) Assume(now Instant, limit Limit, used int64, newest Instant) {
	live, counts := s.live(now, limit.micros())
	*s = live
	if counts < used {
		s.Spend(newest, limit, used-counts)
		return
	}
	for excess := counts - used; excess > 0; { // the oldest run may have fewer units than excess
		excess -= s.take(0, excess)
	}
}

// take removes up to cost units from a run, and returns the number removed.
func (s *windowLog) take(i int, cost int64) int64 {
	previous := s.dropped
	if i > 0 {
		previous = s.runs[i-1].sum
	}
	taken := min(cost, s.runs[i].sum-previous)
	for j := i; j < len(s.runs); j++ {
		s.runs[j].sum -= taken
	}
	if s.runs[i].sum == previous {
		s.runs = append(s.runs[:i], s.runs[i+1:]...)
	}
	return taken
}

func (s *windowLog) Expires(limit Limit) Instant {
	if len(s.runs) == 0 {
		return 0
	}
	return s.runs[len(s.runs)-1].latest + limit.micros()
}

func (s *windowLog) Clone() State {
	clone := *s
	clone.runs = append([]run(nil), s.runs...)
	return &clone
}

func (s *windowLog) Reset() { *s = windowLog{grain: s.grain} }

func (s *windowLog) Size() int { return 56 + 24*cap(s.runs) }

// live is the log without the units that no longer count at now, and the number of units that are left.
func (s *windowLog) live(now, window Instant) (live windowLog, used int64) {
	if isTooFarAhead(s.clamp(now), now, window) {
		return windowLog{grain: s.grain}, 0
	}
	now = s.clamp(now)
	expired := sort.Search(len(s.runs), func(i int) bool { return s.runs[i].latest+window > now })
	live = windowLog{grain: s.grain, dropped: s.dropped, runs: s.runs[expired:]}
	if expired > 0 {
		live.dropped = s.runs[expired-1].sum
	}
	return live, live.sum() - live.dropped
}

// sum is the number of units ever admitted.
func (s *windowLog) sum() int64 {
	if len(s.runs) == 0 {
		return s.dropped
	}
	return s.runs[len(s.runs)-1].sum
}

func (s *windowLog) clamp(now Instant) Instant {
	if len(s.runs) == 0 {
		return now
	}
	return max(now, s.runs[len(s.runs)-1].latest)
}
