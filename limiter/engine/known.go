package engine

import (
	"time"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/denials"
)

// known returns the results of the enforced rules that are known to deny now. One suffices for the request to be
// denied and charged nowhere.
func (f *inForce) known(subjects []subject, peek bool, now time.Time) []Result {
	if f.denials == nil || peek {
		return nil
	}
	var results []Result
	for i := range subjects {
		s := &subjects[i]
		if s.rule.Shadow {
			continue
		}
		if d, denied := f.denials.Find(s.charge, now); denied {
			results = append(results, s.result(d, SourceCache))
		}
	}
	return results
}

// remember takes note of what enforced charges were decided, asked for at began and told by answered.
func (f *inForce) remember(charges []limiter.Charge, decisions []limiter.Decision, began, answered time.Time) {
	if f.denials == nil {
		return
	}
	for i, c := range charges {
		if !c.Shadow && !decisions[i].Allowed {
			f.denials.Remember(c, decisions[i], began, answered)
		}
	}
}

// Forget drops the denials known of the counters at keys. Call it after units were taken back from them.
func (e *Engine) Forget(keys ...string) {
	f := e.inForce.Load()
	if f == nil || f.denials == nil {
		return
	}
	now := e.clock()
	for _, key := range keys {
		f.denials.Forget(key, now)
	}
}

// ForgetAll drops all known denials, and what checks under way are about to know. Call it when some Forget may have been
// missed.
func (e *Engine) ForgetAll() {
	if e.most == 0 {
		return
	}
	for f := e.inForce.Load(); f != nil; f = e.inForce.Load() {
		empty := &inForce{index: f.index, tallies: f.tallies, denials: e.newDenials()}
		if e.inForce.CompareAndSwap(f, empty) {
			return
		}
	}
}

// newDenials is an empty memory, nil if the Engine is to remember nothing.
func (e *Engine) newDenials() *denials.Denials {
	if e.most == 0 {
		return nil
	}
	return denials.New(e.most)
}

// knownDenials is how many denials are remembered.
func (e *Engine) knownDenials() int {
	if f := e.inForce.Load(); f != nil && f.denials != nil {
		return f.denials.Len()
	}
	return 0
}
