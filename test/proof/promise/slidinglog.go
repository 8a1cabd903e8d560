package promise

import (
	"fmt"
	"math"
	"slices"
)

// SlidingWindowLog promises that within no interval (t − Window, t] more than Limit units are admitted.
type SlidingWindowLog struct {
	Limit, Window int64 // units, microseconds
}

// CheckAdmitted implements Promise.
func (p SlidingWindowLog) CheckAdmitted(log Log) error {
	if units, at := log.densestWindow(p.Window); units > p.Limit {
		return fmt.Errorf("sliding log of %d per %d us: %d units admitted within a window from %d", p.Limit, p.Window, units, at)
	}
	return nil
}

// densestWindow returns the greatest number of units that were certainly admitted within window microseconds, including both
// ends, and the start of that interval. It checks only intervals that begin with an admission, because any other interval can
// be moved to one without losing units.
func (l Log) densestWindow(window int64) (units, at int64) {
	admitted := l.admitted()
	for _, r := range admitted {
		if n := admitted.certainlyWithin(r.From, r.From+window-1); n > units {
			units, at = n, r.From
		}
	}
	return units, at
}

// CheckDenied implements Promise.
func (p SlidingWindowLog) CheckDenied(log Log) error {
	counted := log.counted()
	for _, d := range log.denied() {
		if room := p.Limit - counted.possiblyWithin(d.From-p.Window+1, d.To); d.Units <= room {
			return fmt.Errorf("sliding log of %d per %d us: %d units denied at %d … %d, although %d units were free", p.Limit, p.Window, d.Units, d.From, d.To, room)
		}
	}
	return nil
}

// MinCounted implements Promise. If n units are denied at t, more than Limit − n units are in (t − Window, t]. It sums up such
// windows without overlap, from the last denial backwards. The time between two of them is at most the time from a denial to
// the next one.
func (p SlidingWindowLog) MinCounted(log Log) int64 {
	var units int64
	unchecked := int64(math.MaxInt64) // windows before this instant are not counted yet
	for _, d := range slices.Backward(log.denied()) {
		if d.To < unchecked {
			units += max(0, p.Limit-d.Units+1)
			unchecked = d.From - p.Window + 1
		}
	}
	return units
}
