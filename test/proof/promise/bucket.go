package promise

import (
	"fmt"
	"slices"
)

// TokenBucket promises that in any interval of length d at most Burst + Limit · d/Window units are admitted.
type TokenBucket struct {
	Limit, Window, Burst int64 // units, microseconds, units
}

func (p TokenBucket) meter() meter { return meter{limit: p.Limit, window: p.Window, capacity: p.Burst} }

// CheckAdmitted implements Promise.
func (p TokenBucket) CheckAdmitted(log Log) error { return p.meter().checkAdmitted(log) }

// CheckDenied implements Promise.
func (p TokenBucket) CheckDenied(log Log) error { return p.meter().checkDenied(log) }

// MinCounted implements Promise.
func (p TokenBucket) MinCounted(log Log) int64 { return p.meter().minCounted(log) }

// LeakyBucket promises that admitted units leave, after their delays, at least Window/Limit apart, and that at most Burst
// units wait behind the unit that is leaving.
type LeakyBucket struct {
	Limit, Window, Burst int64 // units, microseconds, units
	// Grain is the unit to which delays were rounded up, in microseconds.
	Grain int64
}

// meter measures the queue and the unit that is leaving.
func (p LeakyBucket) meter() meter {
	return meter{limit: p.Limit, window: p.Window, capacity: p.Burst + 1}
}

// CheckAdmitted implements Promise.
func (p LeakyBucket) CheckAdmitted(log Log) error {
	if err := p.meter().checkAdmitted(log); err != nil {
		return err
	}
	admitted := log.admitted()
	for _, r := range admitted {
		if (r.Delay-p.Grain)*p.Limit >= (p.Burst+1-r.Units)*p.Window {
			return fmt.Errorf("leaky bucket of %d per %d us: %d units admitted at %d … %d wait %d us, with at most %d units in the queue",
				p.Limit, p.Window, r.Units, r.From, r.To, r.Delay, p.Burst)
		}
	}
	return p.checkSpacing(admitted)
}

// checkSpacing compares the departures of admitted requests with the rate. A request of n units has n turns, the first one at
// its departure. So all units that depart within [a, b], except those of the last request, fit into b − a.
func (p LeakyBucket) checkSpacing(admitted Log) error {
	departures := make(Log, len(admitted))
	for i, r := range admitted {
		departures[i] = Request{From: r.From + max(0, r.Delay-p.Grain), To: r.To + r.Delay, Units: r.Units}
	}
	ends := departures.byEnd()
	for _, first := range departures {
		var units, begun int64
		for i, r := range ends {
			if r.From < first.From {
				continue
			}
			units, begun = units+r.Units, max(begun, r.From)
			if (units-ends[:i+1].lastUnits(begun))*p.Window > p.Limit*(r.To-first.From) {
				return fmt.Errorf("leaky bucket of %d per %d us: %d units leave from %d to %d", p.Limit, p.Window, units, first.From, r.To)
			}
		}
	}
	return nil
}

// lastUnits returns the greatest number of units of the request that can be the last one of l, given that a request is not
// before an instant. l must be sorted by To.
func (l Log) lastUnits(notBefore int64) int64 {
	var units int64
	for i := len(l) - 1; i >= 0 && l[i].To >= notBefore; i-- {
		units = max(units, l[i].Units)
	}
	return units
}

// CheckDenied implements Promise. It also returns an error for a delay that is longer than the queue.
func (p LeakyBucket) CheckDenied(log Log) error {
	if err := p.meter().checkDenied(log); err != nil {
		return err
	}
	ends := log.counted().byEnd()
	for _, r := range log.admitted() {
		before := p.meter().maxLevel(ends, r.From, r.To) - r.Units*p.Window // includes the request itself
		if (r.Delay-p.Grain)*p.Limit >= before {
			return fmt.Errorf("leaky bucket of %d per %d us: admitted at %d … %d with a delay of %d us, which is longer than the queue",
				p.Limit, p.Window, r.From, r.To, r.Delay)
		}
	}
	return nil
}

// MinCounted implements Promise.
func (p LeakyBucket) MinCounted(log Log) int64 { return p.meter().minCounted(log) }

// meter admits requests up to its capacity, and drains limit units per window. Levels are multiplied by the window, so that
// they are integers.
type meter struct {
	limit, window, capacity int64
}

// checkAdmitted looks for an interval in which more was admitted than the capacity and what drained. It checks intervals that
// begin and end with an admission, because any other interval can be shortened to one without losing units.
func (m meter) checkAdmitted(log Log) error {
	admitted := log.admitted()
	ends := admitted.byEnd()
	for _, first := range admitted {
		var units int64
		for _, r := range ends {
			if r.From < first.From {
				continue
			}
			units += r.Units
			if (units-m.capacity)*m.window > m.limit*(r.To-first.From) {
				return fmt.Errorf("bucket of %d and %d per %d us: %d units admitted from %d to %d", m.capacity, m.limit, m.window, units, first.From, r.To)
			}
		}
	}
	return nil
}

// maxLevel returns the highest possible level at an instant within [from, to], times the window: the maximum, over all
// intervals that end there, of the units that arrived in the interval and cannot have drained. Each unit arrives as late as
// possible. ends must be sorted by To.
func (m meter) maxLevel(ends Log, from, to int64) int64 {
	var level, units int64
	for _, r := range slices.Backward(ends) {
		if r.From > to {
			continue
		}
		units += r.Units
		level = max(level, units*m.window-m.limit*max(0, from-r.To))
	}
	return level
}

func (m meter) checkDenied(log Log) error {
	ends := log.counted().byEnd()
	var last Request
	for _, d := range log.denied() {
		if d == last { // calls of a batch are decided at one instant
			continue
		}
		last = d
		if level := m.maxLevel(ends, d.From, d.To); level+d.Units*m.window <= m.capacity*m.window {
			return fmt.Errorf("bucket of %d and %d per %d us: %d units denied at %d … %d, although at most %d units were in it",
				m.capacity, m.limit, m.window, d.Units, d.From, d.To, level/m.window)
		}
	}
	return nil
}

// minCounted uses that the level is above capacity − n when n units are denied. From one denial to the next the level drains at
// the rate of the limit, or by more than that level if it reaches 0 between them: by at least the smaller of the two. The
// number of counted units is what drained plus the level at the last denial. The result is below the promised rate only if
// no request is denied for longer than capacity − n units take to drain.
func (m meter) minCounted(log Log) int64 {
	denied := log.denied()
	if len(denied) == 0 {
		return 0
	}
	level := (m.capacity - denied.largestRequest()) * m.window
	if level < 0 {
		return 0 // such a request is always denied
	}
	least := level + 1
	for at := 0; ; {
		next := m.nextDenial(denied, at, level)
		if next < 0 {
			return (least + m.window - 1) / m.window
		}
		least += min(level, m.limit*(denied[next].From-denied[at].To))
		at = next
	}
}

// nextDenial returns the index of the last denial after index at before which the level cannot have reached 0; otherwise the
// next one; otherwise -1. Fewer steps lose less precision where the instants are not known exactly.
func (m meter) nextDenial(denied Log, at int, level int64) int {
	found := -1
	for i := at + 1; i < len(denied); i++ {
		isLater, empty := denied[i].From > denied[at].To, m.limit*(denied[i].From-denied[at].From) > level
		if empty && found >= 0 {
			break
		}
		if isLater && (found < 0 || m.limit*(denied[i].To-denied[at].From) <= level) {
			found = i
		}
	}
	return found
}
