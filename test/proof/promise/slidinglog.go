package promise

import (
	"fmt"
	"math"
	"slices"
)

// SlidingWindowLog promises that within no (t − Window, t] more than Limit units are admitted.
type SlidingWindowLog struct {
	Limit, Window int64 // units, microseconds
}

// Over implements Promise.
func (p SlidingWindowLog) Over(log Log) error {
	if units, at := log.densest(p.Window); units > p.Limit {
		return fmt.Errorf("sliding log of %d per %d us: %d units admitted within a window from %d on", p.Limit, p.Window, units, at)
	}
	return nil
}

// densest is the most units that were certainly admitted within window microseconds, both ends included, and from when on.
// It begins with an admission: any other that holds as many can be moved there.
func (l Log) densest(window int64) (units, at int64) {
	admitted := l.admitted()
	for _, r := range admitted {
		if n := admitted.surely(r.From, r.From+window-1); n > units {
			units, at = n, r.From
		}
	}
	return units, at
}

// Needless implements Promise.
func (p SlidingWindowLog) Needless(log Log) error {
	counted := log.counted()
	for _, d := range log.denied() {
		if room := p.Limit - counted.perhaps(d.From-p.Window+1, d.To); d.Units <= room {
			return fmt.Errorf("sliding log of %d per %d us: %d units denied at %d … %d, where there was room for %d", p.Limit, p.Window, d.Units, d.From, d.To, room)
		}
	}
	return nil
}

// Least implements Promise. When n units are denied at t, (t − Window, t] holds more than Limit − n. Such windows that do
// not overlap are looked for from the last denial backwards: between two there is no more time than from a denial to the
// next.
func (p SlidingWindowLog) Least(log Log) int64 {
	var units int64
	free := int64(math.MaxInt64) // before this instant nothing has been looked at yet
	for _, d := range slices.Backward(log.denied()) {
		if d.To < free {
			units += max(0, p.Limit-d.Units+1)
			free = d.From - p.Window + 1
		}
	}
	return units
}
