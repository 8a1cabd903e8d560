package engine

import (
	"reflect"
	"slices"
	"time"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/denials"
	"github.com/weir-dev/weir/limiter/rules/matching"
)

// knownDenials returns the results of the enforced rules whose cached denials hold now. One of them suffices to deny the
// request, which is then charged nowhere. It returns nil if another enforced rule can deny the request for longer: only the store knows whether it
// does, and the client must not come back too early. A request with a debt is charged even if it is denied, so only the store can deny it.
func (a *active) knownDenials(matched []ruleCharge, peek bool, now time.Time) []Result {
	if a.denials == nil || peek || hasDebt(matched) {
		return nil
	}
	var results []Result
	var known time.Duration // the longest of the waits
	var at limiter.Instant  // now, by the clock of the store
	for i := range matched {
		r := &matched[i]
		if r.rule.Shadow {
			continue
		}
		if d, called, denied := a.denials.FindCalled(r.charge, now); denied && !called.Before(a.since[r.rule.Policy]) {
			results, known, at = append(results, r.result(d, SourceCache)), max(known, d.RetryAfter), d.At
		}
	}
	if results == nil || len(results) == len(matched) {
		return results
	}
	for i := range matched {
		r := &matched[i]
		isKnown := slices.ContainsFunc(results, func(result Result) bool { return result.Key == r.charge.Key })
		if !r.rule.Shadow && !isKnown && r.longestWait(at) > known {
			return nil
		}
	}
	return results
}

// longestWait is the longest RetryAfter of a decision on the charge at an instant.
func (r *ruleCharge) longestWait(at limiter.Instant) time.Duration {
	limit := r.charge.Limit
	switch {
	case r.charge.Units() > limit.Capacity():
		return limiter.Never
	case limit.Traits().EndsWithWindow():
		return limit.Window() - at.Sub(0)%limit.Window()
	default:
		return limit.LongestWait()
	}
}

// hasDebt reports whether a charge is counted even if the request is denied.
func hasDebt(matched []ruleCharge) bool {
	for i := range matched {
		if matched[i].charge.CountsAlways() {
			return true
		}
	}
	return false
}

// cacheDenials caches the denials of enforced charges that the store made between began and now.
func (a *active) cacheDenials(charges []limiter.Charge, decisions []limiter.Decision, began time.Time, clock func() time.Time) {
	if a.denials == nil {
		return
	}
	for i, c := range charges {
		if !c.Shadow && !c.Debt && !decisions[i].Allowed && decisions[i].Origin == limiter.OriginStore {
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
		empty := *a
		empty.denials = e.newDenials()
		if e.active.CompareAndSwap(a, &empty) {
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

// unchangedSince returns when the rule of each policy last changed: now, unless previous has an equal rule. The denials of a counter
// from before are invalid, even if an earlier edit is reverted: in between, the counter may have admitted more.
func unchangedSince(previous *active, index *matching.Index, now time.Time) map[string]time.Time {
	since, before := make(map[string]time.Time, index.Len()), map[string]*matching.Compiled{}
	if previous != nil {
		for rule := range previous.index.Rules() {
			before[rule.Policy] = rule
		}
	}
	for rule := range index.Rules() {
		since[rule.Policy] = now
		if same := before[rule.Policy]; same != nil && reflect.DeepEqual(same.Rule, rule.Rule) {
			since[rule.Policy] = previous.since[rule.Policy]
		}
	}
	return since
}
