package limiter

import "fmt"

// State records what was spent on one key under one algorithm. It is not safe for concurrent use.
//
// A clock that steps backwards does no harm: a State never uses an instant before the latest at which it counted.
type State interface {
	// Decide returns whether cost units may be spent now under limit. It changes nothing.
	Decide(now Instant, limit Limit, cost int64) Decision
	// Spend counts cost units now. Call it only when Decide allowed them. FixedWindow and SlidingWindowCounter also count units above the
	// limit, up to MaxUnits in a window.
	Spend(now Instant, limit Limit, cost int64)
	// Refund refunds cost units that were spent at the earlier instant at, as far as they still count now. If none of them counts, it
	// changes nothing. If no units are left, the state equals a new one.
	Refund(now Instant, limit Limit, cost int64, at Instant)
	// Assume sets the number of units that count now to used, from 0 to the capacity of limit, as another store returned it. It changes
	// as little as possible about when units were spent. Additional units were spent at newest, which must not be after now.
	Assume(now Instant, limit Limit, used int64, newest Instant)
	// Expires is the instant from which on the state equals a new one.
	Expires(limit Limit) Instant
	// Clone returns an independent copy.
	Clone() State
	// Size is the approximate memory of the state in bytes.
	Size() int
}

// coarseInstants is the number of instants per window that a coarse log distinguishes.
const coarseInstants = 64

// NewCoarseState returns a NewState that takes less memory. The state of a SlidingWindowLog normally grows by 24 bytes per instant at which
// units are admitted. A coarse state merges instants, and units count longer by up to a 64th of the window.
func (l Limit) NewCoarseState() State {
	if l.algorithm == SlidingWindowLog {
		return &windowLog{grain: l.micros() / coarseInstants}
	}
	return l.NewState()
}

// NewState returns the state of a key on which nothing was spent.
func (l Limit) NewState() State {
	switch l.algorithm {
	case SlidingWindowLog:
		return &windowLog{}
	case SlidingWindowCounter:
		return &windowCounter{}
	case FixedWindow:
		return &fixedWindow{}
	case TokenBucket, LeakyBucket:
		return &bucket{}
	default:
		panic(fmt.Sprintf("limiter: NewState: the limit was not built by NewLimit: %v", l))
	}
}

// Spend decides charges[i] on states[i], all or nothing, and counts them if they are allowed. It does for states what [Store.Spend] does
// for counters.
func Spend(now Instant, charges []Charge, states []State) []Decision {
	decisions, passed := decide(now, charges, states), true
	for i, c := range charges {
		passed = passed && (c.Shadow || decisions[i].Allowed)
	}
	for i, c := range charges {
		if c.Units() == 0 || !c.Debt && (!passed || !decisions[i].Allowed) {
			continue
		}
		states[i].Spend(now, c.Limit, c.Units())
		if before := decisions[i]; before.Allowed {
			decisions[i] = states[i].Decide(now, c.Limit, 0)
			decisions[i].Allowed, decisions[i].RetryAfter, decisions[i].Delay = true, 0, before.Delay
		} else {
			decisions[i] = states[i].Decide(now, c.Limit, c.Needed())
		}
	}
	return decisions
}

// Peek decides charges[i] on states[i] and changes nothing. It does for states what [Store.Peek] does for counters.
func Peek(now Instant, charges []Charge, states []State) []Decision {
	decisions := decide(now, charges, states)
	for i, c := range charges {
		if c.CountsAlways() && !decisions[i].Allowed {
			counted := states[i].Clone()
			counted.Spend(now, c.Limit, c.Units())
			decisions[i].RetryAfter = counted.Decide(now, c.Limit, c.Needed()).RetryAfter
		}
	}
	return decisions
}

// decide decides charges[i] on states[i], before any of them is counted.
func decide(now Instant, charges []Charge, states []State) []Decision {
	decisions := make([]Decision, len(charges))
	for i, c := range charges {
		decisions[i] = states[i].Decide(now, c.Limit, c.Needed())
	}
	return decisions
}
