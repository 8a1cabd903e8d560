package limiter

import "fmt"

// State is what has been spent on one key under one algorithm. It is not safe for concurrent use.
//
// A clock that steps backwards is harmless: a State never goes back behind the latest instant it counted at.
type State interface {
	// Decide says whether cost units may be spent now under limit. It changes nothing.
	Decide(now Instant, limit Limit, cost int64) Decision
	// Spend counts cost units now. Call it only when Decide allowed them.
	Spend(now Instant, limit Limit, cost int64)
	// Refund takes cost units back that were spent at an instant before, as far as they still count now. When none does,
	// it changes nothing; when nothing is left, the state is a new one.
	Refund(now Instant, limit Limit, cost int64, at Instant)
	// Assume makes used units count now, 0 up to the capacity of limit, whatever counted before: what a store told that
	// knows more. It changes as little of when they were spent as that takes; the last was spent at newest, which is not
	// after now.
	Assume(now Instant, limit Limit, used int64, newest Instant)
	// Expires is the instant from which on the state is worth no more than a new one.
	Expires(limit Limit) Instant
	// Clone is a state of its own that is the same.
	Clone() State
	// Size is about how many bytes of memory the state takes.
	Size() int
}

// coarse is how many instants in a window a coarse log tells apart.
const coarse = 64

// NewCoarseState is NewState for who keeps many: of a SlidingWindowLog, whose state else grows by 24 bytes with every
// instant that something is admitted at, it keeps few instants, and units count longer by up to a 64th of the window.
func (l Limit) NewCoarseState() State {
	if l.algorithm == SlidingWindowLog {
		return &windowLog{grain: l.micros() / coarse}
	}
	return l.NewState()
}

// NewState returns the state of a key that nothing has been spent on.
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
		panic(fmt.Sprintf("limiter: NewState of a limit that NewLimit did not build: %v", l))
	}
}

// Spend decides charges[i] on states[i], all or nothing, and counts them if they pass. It is what
// [Store.Spend] promises, for states that the caller has at hand.
func Spend(now Instant, charges []Charge, states []State) []Decision {
	decisions := Peek(now, charges, states)
	for i, c := range charges {
		if !c.Shadow && !decisions[i].Allowed {
			return decisions
		}
	}
	for i, c := range charges {
		if c.Units() == 0 || !decisions[i].Allowed {
			continue
		}
		states[i].Spend(now, c.Limit, c.Units())
		delay := decisions[i].Delay
		decisions[i] = states[i].Decide(now, c.Limit, 0)
		decisions[i].Delay = delay
	}
	return decisions
}

// Peek decides charges[i] on states[i] and changes nothing.
func Peek(now Instant, charges []Charge, states []State) []Decision {
	decisions := make([]Decision, len(charges))
	for i, c := range charges {
		decisions[i] = states[i].Decide(now, c.Limit, c.Units())
	}
	return decisions
}
