package limiter

import (
	"fmt"
	"time"
)

// State records what was spent on one key under one algorithm. It is not safe for concurrent use.
//
// After the clock has stepped backwards, a State does not use an instant before the latest at which it counted, so that nothing is freed early.
// If that instant is more than one window ahead of the clock, the clock was wrong then, and the State is that of a key on which nothing was spent.
type State interface {
	// Decide returns whether cost units may be spent now under limit. It changes nothing.
	Decide(now Instant, limit Limit, cost int64) Decision
	// Spend counts cost units now. Call it only when Decide allowed them. FixedWindow and SlidingWindowCounter also count units above the
	// limit, up to MaxUnits in a window.
	Spend(now Instant, limit Limit, cost int64)
	// Refund refunds cost units that were spent at the earlier instant at, as far as they still count now. If none of them counts, it
	// changes nothing. If no units are left, the state equals a new one.
	Refund(now Instant, limit Limit, cost int64, spentAt Instant)
	// Assume sets the number of units that count now to used, from 0 to the capacity of limit, as another store returned it. It changes
	// as little as possible about when units were spent. Additional units were spent at newest, which must not be after now.
	Assume(now Instant, limit Limit, used int64, newest Instant)
	// Expires is the instant from which on the state equals a new one.
	Expires(limit Limit) Instant
	// Reset makes the state equal a new one.
	Reset()
	// Clone returns an independent copy.
	Clone() State
	// Size is the approximate memory of the state in bytes.
	Size() int
}

// NewCoarseState returns a NewState that takes less memory. The state of a SlidingWindowLog normally grows by 24 bytes per instant at which
// units are admitted. A coarse state merges instants, and units count longer by up to a 64th of the window.
func (l Limit) NewCoarseState() State {
	return l.newState(true)
}

// NewState returns the state of a key on which nothing was spent.
func (l Limit) NewState() State { return l.newState(false) }

func (l Limit) newState(coarse bool) State {
	if l.traits == nil {
		panic(fmt.Sprintf("limiter: NewState: the limit was not built by NewLimit: %v", l))
	}
	return l.traits.newState(l, coarse)
}

// Spend decides charges[i] on states[i], all or nothing, and counts them if they are allowed. It does for states what [Store.Spend] does
// for counters.
func Spend(now Instant, charges []Charge, states []State) []Decision {
	return SpendInto(nil, now, charges, states)
}

// SpendInto is Spend with the memory of decisions that are not used any more, to save an allocation. It returns the new ones.
func SpendInto(unused []Decision, now Instant, charges []Charge, states []State) []Decision {
	decisions, startsOver := decide(unused, now, charges, states)
	passed := true
	for i := range charges {
		passed = passed && (charges[i].Shadow || decisions[i].Allowed)
	}
	for i := range charges {
		c := &charges[i]
		if c.Units() == 0 || !c.Debt && (!passed || !decisions[i].Allowed) {
			continue
		}
		if startsOver != nil && startsOver[i] {
			states[i].Reset()
		}
		states[i].Spend(now, c.Limit, c.Units())
		if d := &decisions[i]; d.Allowed {
			delay := d.Delay
			decideAt(d, now, c.Limit, 0, states[i])
			d.Allowed, d.RetryAfter, d.Delay = true, 0, delay
		} else {
			decideAt(d, now, c.Limit, c.Needed(), states[i])
		}
	}
	return decisions
}

// Peek decides charges[i] on states[i] and changes nothing. It does for states what [Store.Peek] does for counters.
func Peek(now Instant, charges []Charge, states []State) []Decision {
	decisions, _ := decide(nil, now, charges, states)
	for i, c := range charges {
		if c.CountsAlways() && !decisions[i].Allowed {
			decisions[i].RetryAfter = waitAfterDebt(now, &c, states[i])
		}
	}
	return decisions
}

// decide decides charges[i] on states[i], before any of them is counted. startsOver[i] is true if the state is ahead of the clock and would
// make the charge wait for longer than its limit can: the decision is that of a new state.
func decide(unused []Decision, now Instant, charges []Charge, states []State) (decisions []Decision, startsOver []bool) {
	if decisions = unused[:0]; cap(decisions) < len(charges) {
		decisions = make([]Decision, len(charges))
	}
	decisions = decisions[:len(charges)]
	for i := range charges {
		c, d := &charges[i], &decisions[i]
		decideAt(d, now, c.Limit, c.Needed(), states[i])
		if d.Ahead > 0 && waitsTooLong(now, c, states[i], d) {
			if startsOver == nil {
				startsOver = make([]bool, len(charges))
			}
			startsOver[i] = true
			decideAt(d, now, c.Limit, c.Needed(), c.Limit.NewState())
		}
	}
	return decisions, startsOver
}

func decideAt(d *Decision, now Instant, limit Limit, cost int64, state State) {
	*d = state.Decide(now, limit, cost)
	d.Ahead = d.At.Sub(now)
}

// waitsTooLong reports whether a decision on a state that is ahead of the clock is a wait that no request causes.
func waitsTooLong(now Instant, c *Charge, state State, d *Decision) bool {
	switch {
	case d.Allowed:
		return d.Delay > c.Limit.LongestWait()
	case d.RetryAfter == Never:
		return false
	case c.CountsAlways():
		return waitAfterDebt(now, c, state) > c.Limit.LongestWait()
	default:
		return d.RetryAfter > c.Limit.LongestWait()
	}
}

// waitAfterDebt is the wait after a debt that is denied, and counted nevertheless.
func waitAfterDebt(now Instant, c *Charge, state State) time.Duration {
	counted := state.Clone()
	counted.Spend(now, c.Limit, c.Units())
	return counted.Decide(now, c.Limit, c.Needed()).RetryAfter
}

// isTooFarAhead reports whether a state counted at an instant that is more than one window after now: the clock was wrong then.
func isTooFarAhead(counted, now, window Instant) bool { return counted-now > window }
