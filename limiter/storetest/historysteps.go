package storetest

import (
	"math"
	"slices"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weir-dev/weir/limiter"
)

func (h *history) spend(rt *rapid.T) {
	drawn, charges, definitions, states := h.draw(rt)
	h.step("spend %v", drawn)
	got, err := h.Store.Spend(rt.Context(), charges)
	if err != nil {
		h.fail(rt, "spend: %v", err)
	}
	h.step("  %+v", got)
	if err := checkSpend(h.now, charges, definitions, got); err != nil {
		h.fail(rt, "spend: %v", err)
	}
	h.compare(rt, limiter.Spend(h.now, charges, states), got)
	h.count(charges)
	counts := !slices.ContainsFunc(drawn, func(c charge) bool { return !c.Shadow && !got[slices.Index(charges, c.Charge)].Allowed })
	for i, c := range drawn {
		if got[i].Allowed || c.CountsAlways() {
			h.spent = append(h.spent, spent{twin: c.twin, cost: c.Cost, instant: got[i].At})
		}
		if c.CountsAlways() || counts && got[i].Allowed && c.Units() > 0 {
			h.checkExpiry(rt, c.twin, c.Limit)
		}
	}
}

func (h *history) peek(rt *rapid.T) {
	drawn, charges, definitions, states := h.draw(rt)
	h.step("peek %v", drawn)
	got, err := h.Store.Peek(rt.Context(), charges)
	if err != nil {
		h.fail(rt, "peek: %v", err)
	}
	h.step("  %+v", got)
	if err := checkPeek(h.now, charges, definitions, got); err != nil {
		h.fail(rt, "peek: %v", err)
	}
	h.compare(rt, limiter.Peek(h.now, charges, states), got)
	h.count(charges)
}

// compare compares decisions with those of package limiter.
func (h *history) compare(rt *rapid.T, want, got []limiter.Decision) {
	if diff := cmp.Diff(want, got); diff != "" {
		h.fail(rt, "the store differs from package limiter (-limiter +store):\n%s", diff)
	}
	h.hints = h.hints[:0]
	for _, d := range got {
		h.hints = append(h.hints, d.ResetAfter, d.RetryAfter)
	}
}

// checkExpiry checks the time to live of a counter that was just written under a limit.
func (h *history) checkExpiry(rt *rapid.T, c *twin, limit limiter.Limit) {
	earliest, latest, exists := h.Expires(c.key)
	if err := c.definition.checkExpiry(h.now, limit, earliest, latest, exists); err != nil {
		h.fail(rt, "counter %s: %v", c.name, err)
	}
}

// count counts a step for each algorithm of the charges.
func (h *history) count(charges []limiter.Charge) {
	seen := map[limiter.Algorithm]bool{}
	for _, c := range charges {
		if algorithm := c.Limit.Algorithm(); !seen[algorithm] {
			seen[algorithm] = true
			h.taken[algorithm]++
		}
	}
}

// wait moves the clock: by up to two microseconds; by up to two windows; to a time in the last decisions, or one microsecond
// before or after it; or backwards, but not before the expiry of a counter.
func (h *history) wait(rt *rapid.T) {
	window := h.counters[0].limit.Window().Microseconds()
	step := rapid.OneOf(
		rapid.Int64Range(0, 2),
		rapid.Int64Range(0, 2*window),
		rapid.Int64Range(-window/4, 0),
		rapid.Int64Range(-5*window/2, 0),
	).Draw(rt, "microseconds")
	if len(h.hints) > 0 && rapid.Bool().Draw(rt, "to a time in the last decisions") {
		hint := rapid.SampledFrom(h.hints).Draw(rt, "time")
		if hint != limiter.Never {
			step = hint.Microseconds() + rapid.Int64Range(-1, 1).Draw(rt, "offset")
		}
	}
	if h.Spread || h.Forward {
		step = max(0, step) // a refunded spend does not move the counter's own time back
	}
	if h.Compact {
		step = max(step, -h.shortestWindow()) // the part of an index that a compact counter stores is unique among close windows
	}
	h.now = max(h.now+limiter.Instant(step), h.expired)
	h.recordExpired()
	h.clock.Set(h.now)
	h.step("at %v", h.now.Sub(h.start))
}

// shortestWindow returns the shortest window of the counters, in microseconds.
func (h *history) shortestWindow() int64 {
	shortest := int64(math.MaxInt64)
	for _, c := range h.counters {
		shortest = min(shortest, c.limit.Window().Microseconds())
	}
	return shortest
}

// recordExpired updates expired.
func (h *history) recordExpired() {
	for _, c := range h.counters {
		if expiry := c.state.Expires(c.limit); expiry <= h.now {
			h.expired = max(h.expired, expiry)
		}
	}
}

// refund refunds some units of an earlier spend, possibly more than once.
func (h *history) refund(rt *rapid.T) {
	if len(h.spent) == 0 {
		return
	}
	s := rapid.SampledFrom(h.spent).Draw(rt, "spent")
	cost := rapid.Int64Range(0, s.cost).Draw(rt, "refunded")
	h.step("refund %s*%d at %v", s.name, cost, s.instant.Sub(h.start))
	if err := h.Store.Refund(rt.Context(), []limiter.Refund{{Key: s.key, Limit: s.limit, Cost: cost, At: s.instant}}); err != nil {
		h.fail(rt, "refund: %v", err)
	}
	if cost > 0 {
		s.state.Refund(h.now, s.limit, cost, s.instant)
	}
	if s.definition.refund(h.now, s.limit, cost, s.instant) > 0 {
		h.checkExpiry(rt, s.twin, s.limit)
	}
	h.recordExpired()
}

func (h *history) reset(rt *rapid.T) {
	c := rapid.SampledFrom(h.counters).Draw(rt, "counter")
	h.step("reset %s", c.name)
	if err := h.Store.Reset(rt.Context(), []string{c.key}, ""); err != nil {
		h.fail(rt, "reset: %v", err)
	}
	c.definition, c.state = newDefinition(c.limit), c.limit.NewState()
}

// edit changes a limit. The spent units do not change.
func (h *history) edit(rt *rapid.T) {
	c := rapid.SampledFrom(h.counters).Draw(rt, "counter")
	if h.Spread && (c.limit.Algorithm() == limiter.TokenBucket || c.limit.Algorithm() == limiter.LeakyBucket) {
		return // after a refunded spend a bucket drains at the rate of the new limit, and so is stricter than the twin
	}
	c.limit = drawBurst(rt, mustLimit(c.limit.Algorithm(), drawUnits(rt, c.limit.Algorithm()), c.limit.Window()))
	h.step("limit %s %s", c.name, describe(c.limit))
}
