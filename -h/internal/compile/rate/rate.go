// Package rate reads the rates of a policy and its tiers: how many units in which window, with which algorithm.
package rate

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weir-dev/weir/go/policyapi"
	"github.com/weir-dev/weir/go/internal/compile/window"
	"github.com/weir-dev/weir/go/internal/limiter"
)

const (
	// Max is the maximum number of rates of a policy or a tier.
	Max = 4
	// MaxSlots is the maximum number of slots of a policy. Each is a rule with all tiers.
	MaxSlots = 8
)

// Report reports a problem of a field, such as spec.rates[0].limit.
type Report func(field, format string, args ...any)

// Rate is a rate as a policy gives it. An invalid algorithm or window has a valid replacement, so that other fields can be validated.
type Rate struct {
	Algorithm limiter.Algorithm
	Window    time.Duration
	// AlgorithmValid and WindowValid are false for replacements.
	AlgorithmValid, WindowValid bool
	// Limit is the zero Limit if any part of the rate is invalid.
	Limit limiter.Limit
}

// ReadPolicy returns the rates of requests in no tier, at least one: spec.limit with its window, or spec.rates.
func ReadPolicy(spec *policyapi.RateLimitPolicySpec, report Report) []Rate {
	if len(spec.Rates) == 0 {
		if spec.Limit == nil {
			report("spec.limit", "a policy must have limit and window, or rates")
			return []Rate{Read("spec", policyapi.Rate{Limit: 1, Window: spec.Window, Algorithm: spec.Algorithm}, report)}
		}
		return []Rate{Read("spec", policyapi.Rate{Limit: *spec.Limit, Window: spec.Window, Algorithm: spec.Algorithm, Burst: spec.Burst}, report)}
	}
	for _, short := range []struct {
		name  string
		isSet bool
	}{{"limit", spec.Limit != nil}, {"window", spec.Window != ""}, {"algorithm", spec.Algorithm != ""}, {"burst", spec.Burst != nil}} {
		if short.isSet {
			report("spec."+short.name, "%s must not be set with rates, because each rate has its own; remove one of them", short.name)
		}
	}
	return ReadList("spec.rates", spec.Rates, report)
}

// Read reads a rate, and reports its problems at the fields of parent, such as spec.rates[0].
func Read(parent string, given policyapi.Rate, report Report) Rate {
	r := Rate{Algorithm: cmp.Or(limiter.Algorithm(given.Algorithm), limiter.DefaultAlgorithm)}
	_, algorithmErr := limiter.NewLimit(r.Algorithm, 1, limiter.MinWindow)
	if algorithmErr != nil {
		r.Algorithm = limiter.DefaultAlgorithm
	}
	var windowErr error
	r.Window, windowErr = window.Parse(given.Window)
	if windowErr == nil && r.Window > r.Algorithm.Traits().MaxWindow {
		windowErr = errors.New("window must be at most 720h (30d), unless algorithm is FixedWindow; use a shorter window or FixedWindow")
		r.Window = limiter.MinWindow
	}
	r.Window = max(r.Window, limiter.MinWindow)
	r.AlgorithmValid, r.WindowValid = algorithmErr == nil, windowErr == nil
	_, limitErr := limiter.NewLimit(r.Algorithm, given.Limit, r.Window)
	for _, check := range []struct {
		field string
		err   error
	}{{".limit", limitErr}, {".window", windowErr}, {".algorithm", algorithmErr}} {
		if check.err != nil {
			report(parent+check.field, "%v", check.err)
		}
	}
	if limitErr == nil {
		r.Limit = r.With(parent, given.Limit, given.Burst, report)
	}
	return r
}

// With returns another limit with the window and the algorithm of r, or the zero Limit if any of them is invalid.
func (r Rate) With(parent string, units int64, burst *int64, report Report) limiter.Limit {
	limit, err := limiter.NewLimit(r.Algorithm, units, r.Window)
	if err != nil {
		report(parent+".limit", "%v", err)
	}
	if err != nil || !r.AlgorithmValid || !r.WindowValid {
		return limiter.Limit{}
	}
	if burst == nil {
		return limit
	}
	if limit, err = limit.WithBurst(*burst); err != nil {
		report(parent+".burst", "%v", err)
	}
	return limit
}

// ReadList reads a list of rates, and reports their problems at the elements of field, such as spec.rates.
func ReadList(field string, given []policyapi.Rate, report Report) []Rate {
	if len(given) > Max {
		report(field, "must have at most %d rates, got %d", Max, len(given))
	}
	rates := make([]Rate, len(given))
	for i := range given {
		parent := fmt.Sprintf("%s[%d]", field, i)
		rates[i] = Read(parent, given[i], report)
		if given[i].Limit == 0 {
			report(parent+".limit", "must be at least 1; to deny every request, use limit: 0 without rates")
		}
		first := slices.IndexFunc(rates[:i], func(r Rate) bool { return r.WindowValid && r.Window == rates[i].Window })
		if first >= 0 && rates[i].WindowValid {
			report(parent+".window", "%q is as long as the window of rates[%d]; use one rate for each window", given[i].Window, first)
		}
	}
	return rates
}

// Limits returns the limits of rates.
func Limits(rates []Rate) []limiter.Limit {
	limits := make([]limiter.Limit, len(rates))
	for i := range rates {
		limits[i] = rates[i].Limit
	}
	return limits
}

// Slot is a window with an algorithm, in which a policy and its tiers have a limit. A request that a slot does not limit is limited in another one,
// or belongs to an unlimited tier.
type Slot struct {
	// Name is unique in the policy: the window, and the algorithm if several slots have this window. It is empty if the policy has one slot.
	Name string
	// Limit applies to requests in no tier. With TiersOnly, it has no units.
	Limit     limiter.Limit
	TiersOnly bool
	// Tiers has the limit of each tier, the zero Limit if the slot does not limit the tier.
	Tiers []limiter.Limit
}

// Slots returns the slots of a policy with these limits, and those of its tiers, which have no element if they are unlimited. All must be valid.
func Slots(base []limiter.Limit, tiers [][]limiter.Limit) (slots []Slot) {
	isSame := func(a, b limiter.Limit) bool { return a.Algorithm() == b.Algorithm() && a.Window() == b.Window() }
	find := func(l limiter.Limit) *Slot {
		i := slices.IndexFunc(slots, func(s Slot) bool { return isSame(s.Limit, l) })
		if i < 0 {
			slots, i = append(slots, Slot{Limit: l.WithoutUnits(), TiersOnly: true, Tiers: make([]limiter.Limit, len(tiers))}), len(slots)
		}
		return &slots[i]
	}
	for _, limit := range base {
		slot := find(limit)
		slot.Limit, slot.TiersOnly = limit, false
	}
	for i, limits := range tiers {
		for _, limit := range limits {
			find(limit).Tiers[i] = limit
		}
	}
	if len(slots) == 1 {
		return slots
	}
	for i := range slots {
		s := &slots[i]
		s.Name = window.Format(s.Limit.Window())
		for j := range slots {
			if i != j && slots[j].Limit.Window() == s.Limit.Window() {
				s.Name = window.Format(s.Limit.Window()) + "-" + string(s.Limit.Algorithm())
			}
		}
	}
	return slots
}

// IsEverAdmitted reports whether a request of this cost can be admitted by all limits of the policy or of a tier, which are the groups. The zero Limit
// is an invalid limit, which has its own problem.
func IsEverAdmitted(cost int64, groups [][]limiter.Limit) bool {
	denies := func(l limiter.Limit) bool { return l != limiter.Limit{} && cost > l.Capacity() }
	return slices.ContainsFunc(groups, func(limits []limiter.Limit) bool { return !slices.ContainsFunc(limits, denies) })
}
