package storetest

import (
	"time"

	"pgregory.net/rapid"

	"github.com/weir-dev/weir/limiter"
)

func drawLimit(rt *rapid.T) limiter.Limit {
	algorithm := rapid.SampledFrom(limiter.Algorithms()).Draw(rt, "algorithm")
	windows := []time.Duration{time.Second, 7 * time.Second, time.Minute, limiter.MaxWindow}
	if algorithm == limiter.FixedWindow {
		windows = append(windows, limiter.MaxFixedWindow)
	}
	window := rapid.SampledFrom(windows).Draw(rt, "window")
	return drawBurst(rt, mustLimit(algorithm, drawUnits(rt, algorithm), window))
}

// drawBurst returns limit with another burst, or unchanged if the burst is not valid for it.
func drawBurst(rt *rapid.T, limit limiter.Limit) limiter.Limit {
	burst := rapid.OneOf(rapid.Int64Range(-1, 5), rapid.Int64Range(0, limiter.MaxUnits)).Draw(rt, "burst")
	if other, err := limit.WithBurst(burst); err == nil {
		return other
	}
	return limit
}

func drawUnits(rt *rapid.T, algorithm limiter.Algorithm) int64 {
	units := rapid.OneOf(rapid.Int64Range(1, 5), rapid.Int64Range(1, 200))
	large := rapid.Int64Range(limiter.MaxUnits-5, limiter.MaxUnits)
	if algorithm == limiter.SlidingWindowLog {
		// near the size at which a store can change the layout, and the largest
		large = rapid.OneOf(rapid.Int64Range(250, 300), rapid.Int64Range(limiter.MaxLogUnits-5, limiter.MaxLogUnits))
	}
	units = rapid.OneOf(units, large)
	return units.Draw(rt, "units")
}

func mustLimit(algorithm limiter.Algorithm, units int64, window time.Duration) limiter.Limit {
	limit, err := limiter.NewLimit(algorithm, units, window)
	if err != nil {
		panic(err) // the ranges above are valid
	}
	return limit
}

// charge is a charge of a request, with its counter.
type charge struct {
	*twin
	limiter.Charge
}

// draw returns random charges: always one on the first counter, because some steps of a history use it.
func (h *history) draw(rt *rapid.T) (drawn []charge, charges []limiter.Charge, definitions []*definition, states []limiter.State) {
	for i, c := range h.counters {
		if i > 0 && rapid.Bool().Draw(rt, "leave out") {
			continue
		}
		one := limiter.Charge{
			Key: c.key, Limit: h.drawMaxDelay(rt, c.limit), Cost: drawCost(rt, c.limit.Units()), Shadow: rapid.IntRange(0, 3).Draw(rt, "shadow") == 3,
		}
		switch one.Limit.Algorithm() {
		case limiter.FixedWindow, limiter.SlidingWindowCounter:
			one.Debt = rapid.IntRange(0, 3).Draw(rt, "debt") == 3
			one.Whole = one.Debt && rapid.Bool().Draw(rt, "whole")
		}
		drawn, charges = append(drawn, charge{c, one}), append(charges, one)
		definitions, states = append(definitions, c.definition), append(states, c.state)
	}
	return drawn, charges, definitions, states
}

// drawMaxDelay bounds the delay of some limits, often by a delay that was just returned.
func (h *history) drawMaxDelay(rt *rapid.T, limit limiter.Limit) limiter.Limit {
	if limit.Algorithm() != limiter.LeakyBucket {
		return limit
	}
	switch rapid.IntRange(0, 3).Draw(rt, "maximum delay") {
	case 0:
		return limit.NoDelay()
	case 1:
		bounds := append([]time.Duration{time.Millisecond, limit.Window() / time.Duration(limit.Units()), 30 * time.Minute}, h.hints...)
		return limit.WithMaxDelay(rapid.SampledFrom(bounds).Draw(rt, "bound"))
	default:
		return limit
	}
}

func drawCost(rt *rapid.T, units int64) int64 {
	return rapid.OneOf(
		rapid.Int64Range(0, 3),
		rapid.Int64Range(max(0, units/2-1), units/2+1),
		rapid.Int64Range(max(0, units-1), units+1),
		rapid.Int64Range(0, limiter.MaxUnits),
	).Draw(rt, "cost")
}
