package engine

import (
	"time"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/denials"
)

// knownDenials returns the results of the enforced rules whose cached denials hold now. One of them suffices to deny the
// request, which is then charged nowhere.
func (a *active) knownDenials(matched []ruleCharge, peek bool, now time.Time) []Result {
	if a.denials == nil || peek {
		return nil
	}
	var results []Result
	for i := range matched {
		r := &matched[i]
		if r.rule.Shadow {
			continue
		}
		if d, denied := a.denials.Find(r.charge, now); denied {
			results = append(results, r.result(d, SourceCache))
		}
	}
	return results
}

// cacheDenials caches the denials of enforced charges that the store made between began and now.
func (a *active) cacheDenials(charges []limiter.Charge, decisions []limiter.Decision, began time.Time, clock func() time.Time) {
	if a.denials == nil {
		return
	}
	for i, c := range charges {
		if !c.Shadow && !decisions[i].Allowed && decisions[i].Origin == limiter.OriginStore {
			a.denials.Remember(c, decisions[i], began, clock())
		}
	}
}

// Forget drops the cached denials of the counters at keys. Call it after units on them were refunded.
func (e *Engine) Forget(keys ...string) {
	a := e.active.Load()
	if a == nil || a.denials == nil {
		return
	}
	now := e.clock()
	for _, key := range keys {
		a.denials.Forget(key, now)
	}
}

// ForgetAll drops all cached denials, and those that checks in flight are about to cache. Call it when a Forget may have been
// missed.
func (e *Engine) ForgetAll() {
	if e.maxDenials == 0 {
		return
	}
	for a := e.active.Load(); a != nil; a = e.active.Load() {
		empty := &active{index: a.index, counters: a.counters, denials: e.newDenials(), populations: a.populations, clock: a.clock}
		if e.active.CompareAndSwap(a, empty) {
			return
		}
	}
}

// newDenials returns an empty cache, nil if the Engine caches no denials.
func (e *Engine) newDenials() *denials.Denials {
	if e.maxDenials == 0 {
		return nil
	}
	return denials.New(e.maxDenials)
}

// cachedDenials returns the number of cached denials.
func (e *Engine) cachedDenials() int {
	if a := e.active.Load(); a != nil && a.denials != nil {
		return a.denials.Len()
	}
	return 0
}
