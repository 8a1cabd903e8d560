package promise

import "fmt"

// FixedWindow promises that at most Limit units are admitted in a window. Windows begin at multiples of their length since
// the epoch.
type FixedWindow struct {
	Limit, Window int64 // units, microseconds
}

// CheckAdmitted implements Promise.
func (p FixedWindow) CheckAdmitted(log Log) error {
	admitted, last := log.admitted(), int64(-1)
	for _, r := range admitted {
		window := r.From / p.Window
		if window == last {
			continue
		}
		last = window
		if units := admitted.certainlyWithin(window*p.Window, (window+1)*p.Window-1); units > p.Limit {
			return fmt.Errorf("fixed window of %d per %d us: %d units admitted in the window that begins at %d", p.Limit, p.Window, units, window*p.Window)
		}
	}
	return nil
}

// CheckDenied implements Promise.
func (p FixedWindow) CheckDenied(log Log) error {
	counted := log.counted()
	for _, d := range log.denied() {
		room := p.Limit
		for window := d.From / p.Window; window <= d.To/p.Window; window++ {
			room = min(room, p.Limit-counted.possiblyWithin(window*p.Window, min(d.To, (window+1)*p.Window-1)))
		}
		if d.Units <= room {
			return fmt.Errorf("fixed window of %d per %d us: %d units denied at %d … %d, although %d units were free", p.Limit, p.Window, d.Units, d.From, d.To, room)
		}
	}
	return nil
}

// MinCounted implements Promise. A window in which n units were denied already had more than Limit − n units, and no unit
// counts in two windows: the sum over the windows with a denial is a bound. With requests of one unit, every window with a
// denial is full.
func (p FixedWindow) MinCounted(log Log) int64 {
	windows := map[int64]int64{}
	for _, d := range log.denied() {
		if window := d.From / p.Window; window == d.To/p.Window {
			windows[window] = max(windows[window], p.Limit-d.Units+1)
		}
	}
	return sum(windows)
}

func sum(windows map[int64]int64) int64 {
	var units int64
	for _, n := range windows {
		units += n
	}
	return units
}
