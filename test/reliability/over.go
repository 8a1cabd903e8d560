package reliability

import (
	"cmp"
	"slices"

	"github.com/weir-dev/weir/limiter"
)

// A span is within when one unit was admitted, both ends included: between question and answer, in microseconds.
type span struct{ from, to int64 }

// over is how many units more than p promises were admitted at the worst moment. It is sure: whenever within their spans
// the units were admitted, it was no less.
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
		panic("reliability: no measure for " + string(p.Algorithm))
	}
}

// overFixedWindow speaks of windows that begin at multiples of their length.
func overFixedWindow(spans []span, limit, window int64) int64 {
	units, most := map[int64]int64{}, int64(0)
	for _, s := range spans {
		if s.from/window == s.to/window { // else nobody knows in which
			units[s.from/window]++
			most = max(most, units[s.from/window]-limit)
		}
	}
	return most
}

// overSlidingLog speaks of all windows. The fullest can be moved until it begins with a unit.
func overSlidingLog(spans []span, limit, window int64) int64 {
	most := int64(0)
	for i, s := range spans {
		most = max(most, within(spans[i:], s.from, s.from+window-1)-limit)
	}
	return most
}

// overSlidingCounter speaks of what the formula weighs at every admission: the units of the window so far, and those of
// the window before by as much of it as the sliding window still covers. The units of one microsecond count together.
func overSlidingCounter(spans []span, limit, window int64) int64 {
	most := int64(0)
	for _, s := range spans {
		start := s.from / window * window
		if s.to >= start+window {
			continue // nobody knows in which window
		}
		previous, current := within(spans, start-window, start-1), within(spans, start, s.to)
		most = max(most, current+previous*(start+window-s.to)/window-limit)
	}
	return most
}

// overBucket speaks of any time: the burst, and what is refilled meanwhile.
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

// within is how many spans, which are sorted, lie in [from, to].
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
