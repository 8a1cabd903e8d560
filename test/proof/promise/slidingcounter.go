package promise

import "fmt"

// SlidingWindowCounter promises, with windows that begin at multiples of their length, that at every admission
// current + previous · (Window − elapsed)/Window ≤ Limit, the units being admitted included; and so less than twice the
// limit within any (t − Window, t].
//
// The second follows from the first: p units of the window before, and then at elapsed time e no more than
// Limit − p · (Window − e)/Window: together Limit + p · e/Window, where p ≤ Limit and e < Window.
type SlidingWindowCounter struct {
	Limit, Window int64 // units, microseconds
}

// Over implements Promise.
func (p SlidingWindowCounter) Over(log Log) error {
	admitted := log.admitted()
	for _, r := range admitted {
		window := r.From / p.Window
		if r.To/p.Window != window {
			continue // nobody knows in which
		}
		start := window * p.Window
		previous, current := admitted.surely(start-p.Window, start-1), admitted.surely(start, r.From)
		if r.From < r.To {
			current += r.Units // that is not yet among them
		}
		if current*p.Window+previous*(p.Window-(r.To-start)) > p.Limit*p.Window {
			return fmt.Errorf("sliding counter of %d per %d us: at %d … %d there were %d units in the window since %d and %d in the one before",
				p.Limit, p.Window, r.From, r.To, current, start, previous)
		}
	}
	if units, at := log.densest(p.Window); units >= 2*p.Limit {
		return fmt.Errorf("sliding counter of %d per %d us: %d units admitted within a window from %d on", p.Limit, p.Window, units, at)
	}
	return nil
}

// Needless implements Promise.
func (p SlidingWindowCounter) Needless(log Log) error {
	counted := log.counted()
	for _, d := range log.denied() {
		justified := false
		for window := d.From / p.Window; window <= d.To/p.Window; window++ {
			start := window * p.Window
			current := counted.perhaps(start, min(d.To, start+p.Window-1))
			previous, elapsed := counted.perhaps(start-p.Window, start-1), max(0, d.From-start)
			justified = justified || (current+d.Units)*p.Window+previous*(p.Window-elapsed) > p.Limit*p.Window
		}
		if !justified {
			return fmt.Errorf("sliding counter of %d per %d us: %d units denied at %d … %d, where there was room", p.Limit, p.Window, d.Units, d.From, d.To)
		}
	}
	return nil
}

// Least implements Promise. When n units are denied at elapsed time e of a window, current is more than
// Limit − n − previous · (Window − e)/Window, where previous ≤ Limit: the later the denial, the more. A window that is
// asked for more than it gives until its end holds Limit − n + 1 units but for what the time from the last denial to the
// end is worth.
func (p SlidingWindowCounter) Least(log Log) int64 {
	windows := map[int64]int64{}
	for _, d := range log.denied() {
		window := d.From / p.Window
		if window != d.To/p.Window {
			continue
		}
		previous := (p.Limit*(p.Window-d.From%p.Window) + p.Window - 1) / p.Window
		windows[window] = max(windows[window], p.Limit-d.Units+1-previous)
	}
	return sum(windows)
}
