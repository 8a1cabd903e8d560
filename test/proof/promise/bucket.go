package promise

import (
	"fmt"
	"slices"
)

// TokenBucket promises that within any time d no more than Burst + Limit · d/Window units are admitted.
type TokenBucket struct {
	Limit, Window, Burst int64 // units, microseconds, units
}

func (p TokenBucket) meter() meter { return meter{limit: p.Limit, window: p.Window, capacity: p.Burst} }

// Over implements Promise.
func (p TokenBucket) Over(log Log) error { return p.meter().over(log) }

// Needless implements Promise.
func (p TokenBucket) Needless(log Log) error { return p.meter().needless(log) }

// Least implements Promise.
func (p TokenBucket) Least(log Log) int64 { return p.meter().least(log) }

// LeakyBucket promises that admitted units leave, after their delays, never closer together than Window/Limit, and that no
// more than Burst of them wait behind the one that is on its way out.
type LeakyBucket struct {
	Limit, Window, Burst int64 // units, microseconds, units
	// Grain is what delays were rounded up to, in microseconds.
	Grain int64
}

// meter is that of the queue and the unit on its way out.
func (p LeakyBucket) meter() meter {
	return meter{limit: p.Limit, window: p.Window, capacity: p.Burst + 1}
}

// Over implements Promise.
func (p LeakyBucket) Over(log Log) error {
	if err := p.meter().over(log); err != nil {
		return err
	}
	admitted := log.admitted()
	for _, r := range admitted {
		if (r.Delay-p.Grain)*p.Limit >= (p.Burst+1-r.Units)*p.Window {
			return fmt.Errorf("leaky bucket of %d per %d us: %d units admitted at %d … %d wait %d us behind a queue of no more than %d",
				p.Limit, p.Window, r.Units, r.From, r.To, r.Delay, p.Burst)
		}
	}
	return p.spacing(admitted)
}

// spacing holds the turns of admitted requests to the rate. A request of n units takes n turns, the first at its departure:
// so all that depart within [a, b] but the last of them fit into b − a.
func (p LeakyBucket) spacing(admitted Log) error {
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

// lastUnits is the most units of a request that may be the last of l, which is sorted by end, given that one of them is not
// before an instant.
func (l Log) lastUnits(notBefore int64) int64 {
	var units int64
	for i := len(l) - 1; i >= 0 && l[i].To >= notBefore; i-- {
		units = max(units, l[i].Units)
	}
	return units
}

// Needless implements Promise. A delay that is longer than what is before it in the queue is needless, too.
func (p LeakyBucket) Needless(log Log) error {
	if err := p.meter().needless(log); err != nil {
		return err
	}
	ends := log.counted().byEnd()
	for _, r := range log.admitted() {
		before := p.meter().highest(ends, r.From, r.To) - r.Units*p.Window // itself is among them
		if (r.Delay-p.Grain)*p.Limit >= before {
			return fmt.Errorf("leaky bucket of %d per %d us: admitted at %d … %d to wait %d us, with less than that before it", p.Limit, p.Window, r.From, r.To, r.Delay)
		}
	}
	return nil
}

// Least implements Promise.
func (p LeakyBucket) Least(log Log) int64 { return p.meter().least(log) }

// meter admits what fits under its capacity, and drains limit units per window. Its levels are kept times the window, in
// which they are whole.
type meter struct {
	limit, window, capacity int64
}

// over finds a time within which more was admitted than the capacity and what drained meanwhile. It begins with an
// admission and ends with one: any other that holds as much can be shortened to that.
func (m meter) over(log Log) error {
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

// highest is the highest that the level can have been at an instant within [from, to], times the window: the most, over
// all beginnings, that came since then and cannot have drained. What may have come before, came as late as it may.
func (m meter) highest(ends Log, from, to int64) int64 {
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

func (m meter) needless(log Log) error {
	ends := log.counted().byEnd()
	var last Request
	for _, d := range log.denied() {
		if d == last { // calls that travel together are decided at one instant
			continue
		}
		last = d
		if level := m.highest(ends, d.From, d.To); level+d.Units*m.window <= m.capacity*m.window {
			return fmt.Errorf("bucket of %d and %d per %d us: %d units denied at %d … %d, where no more than %d were in it",
				m.capacity, m.limit, m.window, d.Units, d.From, d.To, level/m.window)
		}
	}
	return nil
}

// least: when n units are denied, the level is above the capacity − n. From one such instant to the next it drains at the
// limit's rate or, if it runs dry between them, by more than what it held: so by the lesser of the two at the least. What
// was counted in all is what drained and what is left at the last denial. It loses to the promised rate only where nobody
// is denied for longer than capacity − n units take to drain.
func (m meter) least(log Log) int64 {
	denied := log.denied()
	if len(denied) == 0 {
		return 0
	}
	held := (m.capacity - denied.largest()) * m.window
	if held < 0 {
		return 0 // something is denied always
	}
	least := held + 1
	for at := 0; ; {
		next := m.hop(denied, at, held)
		if next < 0 {
			return (least + m.window - 1) / m.window
		}
		least += min(held, m.limit*(denied[next].From-denied[at].To))
		at = next
	}
}

// hop is the last denial after the one at index at until which it cannot have run dry; else the next; else -1. Few hops
// lose little where the instants are not known.
func (m meter) hop(denied Log, at int, held int64) int {
	found := -1
	for i := at + 1; i < len(denied); i++ {
		after, dry := denied[i].From > denied[at].To, m.limit*(denied[i].From-denied[at].From) > held
		if dry && found >= 0 {
			break
		}
		if after && (found < 0 || m.limit*(denied[i].To-denied[at].From) <= held) {
			found = i
		}
	}
	return found
}
