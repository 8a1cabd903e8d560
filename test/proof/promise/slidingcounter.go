package promise

import "fmt"

// SlidingWindowCounter promises that at every admission current + previous · (Window − elapsed)/Window ≤ Limit, where current
// includes the admitted units, and windows begin at multiples of their length since the epoch. It follows that less than
// twice the limit is admitted in any interval (t − Window, t]: p units of the previous window, and then at elapsed time e at
// most Limit − p · (Window − e)/Window, together Limit + p · e/Window, where p ≤ Limit and e < Window.
type SlidingWindowCounter struct {
	Limit, Window int64 // units, microseconds
}

// CheckAdmitted implements Promise.
func (p SlidingWindowCounter) CheckAdmitted(log Log) error {
	admitted := log.admitted()
	for _, r := range admitted {
		window := r.From / p.Window
		if r.To/p.Window != window {
			continue // the window is not known
		}
		start := window * p.Window
		previous, current := admitted.certainlyWithin(start-p.Window, start-1), admitted.certainlyWithin(start, r.From)
		if r.From < r.To {
			current += r.Units // which certainlyWithin does not include
		}
		if current*p.Window+previous*(p.Window-(r.To-start)) > p.Limit*p.Window {
			return fmt.Errorf("sliding counter of %d per %d us: at %d … %d there were %d units in the window that begins at %d and %d in the previous one",
				p.Limit, p.Window, r.From, r.To, current, start, previous)
		}
	}
	if units, at := log.densestWindow(p.Window); units >= 2*p.Limit {
		return fmt.Errorf("sliding counter of %d per %d us: %d units admitted within a window from %d", p.Limit, p.Window, units, at)
	}
	return nil
}

// CheckDenied implements Promise.
func (p SlidingWindowCounter) CheckDenied(log Log) error {
	counted := log.counted()
	for _, d := range log.denied() {
		justified := false
		for window := d.From / p.Window; window <= d.To/p.Window; window++ {
			start := window * p.Window
			current := counted.possiblyWithin(start, min(d.To, start+p.Window-1))
			previous, elapsed := counted.possiblyWithin(start-p.Window, start-1), max(0, d.From-start)
			justified = justified || (current+d.Units)*p.Window+previous*(p.Window-elapsed) > p.Limit*p.Window
		}
		if !justified {
			return fmt.Errorf("sliding counter of %d per %d us: %d units denied at %d … %d, although the limit was not reached",
				p.Limit, p.Window, d.Units, d.From, d.To)
		}
	}
	return nil
}

// MinCounted implements Promise. If n units are denied at elapsed time e of a window, current is more than
// Limit − n − previous · (Window − e)/Window, where previous ≤ Limit: a later denial implies more units. If requests are denied
// until the end of a window, it has Limit − n + 1 units, less the weight of the time from the last denial to the end.
func (p SlidingWindowCounter) MinCounted(log Log) int64 {
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
