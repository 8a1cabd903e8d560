package storetest

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weir-dev/weir/limiter"
)

// minSteps is the least number of steps of Histories for each algorithm, usually one check of package rapid. Some stores are
// slow to test; use [HistoriesOf] for more steps.
const minSteps = 300

// Histories is [HistoriesOf] with the number of steps for every Store.
func Histories(t *testing.T, factory Factory) {
	t.Helper()
	HistoriesOf(t, factory, minSteps)
}

// HistoriesOf runs random histories on the Store and on the algorithms of package limiter, which must agree on every decision.
// A history has small and huge limits, edits of limits, costs, shadow charges, peeks, refunds, resets, and clock steps: by a
// microsecond, to or next to the times in the last decisions, and backwards. It runs histories until it has taken at least
// that number of steps for each algorithm. A step is a spend or a peek whose decision for that algorithm was compared. The
// flag -rapid.checks sets how many histories run before the steps are counted, -rapid.steps their length.
func HistoriesOf(t *testing.T, factory Factory, steps int) {
	t.Helper()
	clock := &Clock{}
	subject := factory(t, clock)
	histories, taken := 0, map[limiter.Algorithm]int{}
	for round := 0; fewest(taken) < steps; round++ {
		if round == steps { // less than one step for each algorithm per round
			t.Fatalf("%d histories took only the steps %v, want %d for each algorithm: raise -rapid.checks or -rapid.steps", histories, taken, steps)
		}
		rapid.Check(t, func(rt *rapid.T) {
			histories++
			h := newHistory(rt, clock, subject, histories)
			h.taken = taken
			rt.Repeat(map[string]func(*rapid.T){
				"spend":  func(rt *rapid.T) { h.decide(rt, "spend", subject.Store.Spend, limiter.Spend) },
				"peek":   func(rt *rapid.T) { h.decide(rt, "peek", subject.Store.Peek, limiter.Peek) },
				"wait":   h.wait,
				"edit":   h.edit,
				"refund": func(rt *rapid.T) { h.refund(rt, subject.Store) },
				"reset":  func(rt *rapid.T) { h.reset(rt, subject.Store) },
			})
		})
	}
	t.Logf("%d histories, steps: %v", histories, taken)
}

// fewest returns the smallest number of steps of an algorithm.
func fewest(taken map[limiter.Algorithm]int) int {
	least := math.MaxInt
	for _, algorithm := range algorithms() {
		least = min(least, taken[algorithm])
	}
	return least
}

// history is one run on up to three counters of the Store and of its twin in memory.
type history struct {
	clock    *Clock
	spread   bool
	now      limiter.Instant
	counters []*twin
	// expired is the latest time at which a counter expired. The clock does not step back before it, because a store may
	// or may not have removed the counter.
	expired limiter.Instant
	spent   []spent
	taken   map[limiter.Algorithm]int // steps of all histories
	hints   []time.Duration           // durations in the last decisions: the times at which decisions change
}

// spent is a charge that was counted and can be refunded.
type spent struct {
	*twin
	cost int64
	at   limiter.Instant
}

type twin struct {
	key   string
	limit limiter.Limit
	state limiter.State
}

func newHistory(rt *rapid.T, clock *Clock, subject Subject, number int) *history {
	// The clock can step back by a month and is still later than the real time, at which a store may expire counters.
	h := &history{clock: clock, now: Epoch().Add(limiter.MaxWindow), expired: Epoch(), spread: subject.Spread}
	for i := range rapid.IntRange(1, 3).Draw(rt, "counters") {
		limit := drawLimit(rt)
		name := fmt.Sprintf("history-%d-%d", number, i)
		identifier := "acme"
		if subject.Spread {
			identifier = name
		}
		h.counters = append(h.counters, &twin{key: key(name, identifier, limit), limit: limit, state: limit.NewState()})
	}
	clock.Set(h.now)
	return h
}

func drawLimit(rt *rapid.T) limiter.Limit {
	algorithm := rapid.SampledFrom(algorithms()).Draw(rt, "algorithm")
	window := rapid.SampledFrom([]time.Duration{time.Second, 7 * time.Second, time.Minute, limiter.MaxWindow}).Draw(rt, "window")
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

// algorithms returns all algorithms.
func algorithms() []limiter.Algorithm {
	return []limiter.Algorithm{
		limiter.FixedWindow, limiter.SlidingWindowLog, limiter.SlidingWindowCounter, limiter.TokenBucket, limiter.LeakyBucket,
	}
}

func drawUnits(rt *rapid.T, algorithm limiter.Algorithm) int64 {
	units := rapid.OneOf(rapid.Int64Range(1, 5), rapid.Int64Range(1, 200))
	large := rapid.Int64Range(limiter.MaxUnits-5, limiter.MaxUnits)
	if algorithm == limiter.SlidingWindowLog {
		large = rapid.Int64Range(250, 300) // near the size at which a store can change the layout
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

type oracle = func(limiter.Instant, []limiter.Charge, []limiter.State) []limiter.Decision

// decide compares the decisions of the Store, for random charges, with those of the oracle.
func (h *history) decide(rt *rapid.T, method string, store decideFunc, oracle oracle) {
	var twins []*twin
	var charges []limiter.Charge
	var states []limiter.State
	for i, c := range h.counters {
		if i > 0 && rapid.Bool().Draw(rt, "leave out") {
			continue
		}
		charges = append(charges, limiter.Charge{
			Key: c.key, Limit: drawNoDelay(rt, c.limit), Cost: drawCost(rt, c.limit.Units()), Shadow: rapid.IntRange(0, 3).Draw(rt, "shadow") == 3,
		})
		states = append(states, c.state)
		twins = append(twins, c)
	}
	got, err := store(rt.Context(), charges)
	if err != nil {
		rt.Fatalf("%s: %v", method, err)
	}
	want := oracle(h.now, charges, states)
	if diff := cmp.Diff(want, got); diff != "" {
		rt.Fatalf("%s at %d of %+v: the store differs from package limiter (-limiter +store):\n%s", method, h.now, charges, diff)
	}
	h.count(charges)
	h.hints = h.hints[:0]
	for i, d := range want {
		if method == "spend" && d.Allowed {
			h.spent = append(h.spent, spent{twin: twins[i], cost: charges[i].Cost, at: d.At})
		}
		h.hints = append(h.hints, d.ResetAfter, d.RetryAfter)
	}
}

// drawNoDelay removes the delay from some limits.
func drawNoDelay(rt *rapid.T, limit limiter.Limit) limiter.Limit {
	if limit.Algorithm() == limiter.LeakyBucket && rapid.Bool().Draw(rt, "no delay") {
		return limit.NoDelay()
	}
	return limit
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

func drawCost(rt *rapid.T, units int64) int64 {
	return rapid.OneOf(
		rapid.Int64Range(0, 3),
		rapid.Int64Range(max(0, units/2-1), units/2+1),
		rapid.Int64Range(max(0, units-1), units+1),
		rapid.Int64Range(0, limiter.MaxUnits),
	).Draw(rt, "cost")
}

// wait moves the clock: by up to two microseconds; by up to two windows; to a time in the last decisions, or one microsecond
// before or after it; or backwards, but not before the expiry of a counter.
func (h *history) wait(rt *rapid.T) {
	window := h.counters[0].limit.Window().Microseconds()
	step := rapid.OneOf(
		rapid.Int64Range(0, 2),
		rapid.Int64Range(0, 2*window),
		rapid.Int64Range(-window/4, 0),
	).Draw(rt, "microseconds")
	if len(h.hints) > 0 && rapid.Bool().Draw(rt, "to a time in the last decisions") {
		hint := rapid.SampledFrom(h.hints).Draw(rt, "time")
		if hint != limiter.Never {
			step = hint.Microseconds() + rapid.Int64Range(-1, 1).Draw(rt, "offset")
		}
	}
	if h.spread {
		step = max(0, step) // a refunded spend does not move the counter's own time back
	}
	h.now = max(h.now+limiter.Instant(step), h.expired)
	h.recordExpired()
	h.clock.Set(h.now)
}

// recordExpired updates expired.
func (h *history) recordExpired() {
	for _, c := range h.counters {
		if at := c.state.Expires(c.limit); at <= h.now {
			h.expired = max(h.expired, at)
		}
	}
}

// refund refunds some units of an earlier spend, possibly more than once.
func (h *history) refund(rt *rapid.T, store limiter.Store) {
	if len(h.spent) == 0 {
		return
	}
	s := rapid.SampledFrom(h.spent).Draw(rt, "spent")
	cost := rapid.Int64Range(0, s.cost).Draw(rt, "refunded")
	if err := store.Refund(rt.Context(), []limiter.Refund{{Key: s.key, Limit: s.limit, Cost: cost, At: s.at}}); err != nil {
		rt.Fatalf("refund: %v", err)
	}
	s.state.Refund(h.now, s.limit, cost, s.at)
	h.recordExpired()
}

func (h *history) reset(rt *rapid.T, store limiter.Store) {
	c := rapid.SampledFrom(h.counters).Draw(rt, "counter")
	if err := store.Reset(rt.Context(), []string{c.key}); err != nil {
		rt.Fatalf("reset: %v", err)
	}
	c.state = c.limit.NewState()
}

// edit changes a limit. The spent units do not change.
func (h *history) edit(rt *rapid.T) {
	c := rapid.SampledFrom(h.counters).Draw(rt, "counter")
	if h.spread && (c.limit.Algorithm() == limiter.TokenBucket || c.limit.Algorithm() == limiter.LeakyBucket) {
		return // after a refunded spend a bucket drains at the rate of the new limit, and so is stricter than the twin
	}
	c.limit = drawBurst(rt, mustLimit(c.limit.Algorithm(), drawUnits(rt, c.limit.Algorithm()), c.limit.Window()))
}
