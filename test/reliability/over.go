package reliability

import (
	"cmp"
	"slices"

	"github.com/weir-dev/weir/limiter"
)

// span is the time in which one unit was admitted, including both ends: between the request and its answer, in microseconds.
type span struct{ from, to int64 }

// over is the largest number of units beyond p's limit that were admitted at any time. It is a lower bound: it holds for all instants within
// the spans at which the units may have been admitted.
func (p Policy) over(admitted []span) int64 {
	spans := slices.SortedFunc(slices.Values(admitted), func(a, b span) int { return cmp.Compare(a.from, b.from) })
	window := p.Window.Microseconds()
	switch p.Algorithm {
	case limiter.FixedWindow:
		return overFixedWindow(spans, p.Limit, window)
	case limiter.SlidingWindowLog:
		return overSlidingLog(spans, p.Limit, window)
	case limiter.SlidingWindowCounter:
		return overSlidingCounter(spans, p.Limit, window)
	case limiter.TokenBucket:
		return overBucket(spans, p.Limit, window, p.Burst)
	default:
		panic("reliability: unsupported algorithm " + string(p.Algorithm))
	}
}

// overFixedWindow checks the windows that begin at multiples of their length.
func overFixedWindow(spans []span, limit, window int64) int64 {
	units, most := map[int64]int64{}, int64(0)
	for _, s := range spans {
		if s.from/window == s.to/window { // otherwise its window is unknown
			units[s.from/window]++
			most = max(most, units[s.from/window]-limit)
		}
	}
	return most
}

// overSlidingLog checks all windows that begin with a unit: one of them has the largest number of units of all windows.
func overSlidingLog(spans []span, limit, window int64) int64 {
	most := int64(0)
	for i, s := range spans {
		most = max(most, within(spans[i:], s.from, s.from+window-1)-limit)
	}
	return most
}

// overSlidingCounter evaluates the formula at every admission: the units of the current window so far, plus those of the previous window
// weighted by the part of it that the sliding window still covers. Units of the same microsecond count together.
func overSlidingCounter(spans []span, limit, window int64) int64 {
	most := int64(0)
	for _, s := range spans {
		start := s.from / window * window
		if s.to >= start+window {
			continue // its window is unknown
		}
		previous, current := within(spans, start-window, start-1), within(spans, start, s.to)
		most = max(most, current+previous*(start+window-s.to)/window-limit)
	}
	return most
}

// overBucket checks every period: the burst plus the units refilled in it.
func overBucket(spans []span, limit, window, burst int64) int64 {
	ends := slices.SortedFunc(slices.Values(spans), func(a, b span) int { return cmp.Compare(a.to, b.to) })
	most := int64(0)
	for _, first := range spans {
		units := int64(0)
		for _, last := range ends {
			if last.from < first.from {
				continue
			}
			units++
			most = max(most, units-burst-limit*(last.to-first.from)/window)
		}
	}
	return most
}

// within is the number of spans in [from, to]. The spans are sorted.
func within(spans []span, from, to int64) int64 {
	first, _ := slices.BinarySearchFunc(spans, from, func(s span, from int64) int { return cmp.Compare(s.from, from) })
	units := int64(0)
	for _, s := range spans[first:] {
		if s.from > to {
			break
		}
		if s.to <= to {
			units++
		}
	}
	return units
}
