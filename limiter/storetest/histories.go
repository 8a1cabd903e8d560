package storetest

import (
	"fmt"
	"math"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weir-dev/weir/limiter"
)

// minSteps is the least number of steps of Histories for each algorithm, usually one check of package rapid. Some stores are
// slow to test; use [HistoriesOf] for more steps.
const minSteps = 1000

// Histories is [HistoriesOf] with the number of steps for every Store.
func Histories(t *testing.T, factory Factory) {
	t.Helper()
	HistoriesOf(t, factory, minSteps)
}

// HistoriesOf runs random histories on the Store. Every decision, and every time to live, must be that of the definition in
// docs/concepts/algorithms.md, and that of the algorithms of package limiter.
// A history has small and huge limits, edits of limits, costs, shadow charges, peeks, refunds, resets, and clock steps: by a
// microsecond, to or next to the times in the last decisions, and backwards. It runs histories until it has taken at least
// that number of steps for each algorithm. A step is a spend or a peek whose decision for that algorithm was compared. The
// flag -rapid.checks sets how many histories run before the steps are counted, -rapid.steps their length.
func HistoriesOf(t *testing.T, factory Factory, steps int) {
	t.Helper()
	clock := &Clock{}
	subject := factory(t, clock)
	t.Cleanup(func() { logCommand(t) })
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
				"spend":  h.spend,
				"peek":   h.peek,
				"wait":   h.wait,
				"edit":   h.edit,
				"refund": h.refund,
				"reset":  h.reset,
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
	Subject

	clock    *Clock
	start    limiter.Instant
	now      limiter.Instant
	counters []*twin
	steps    []string // for the message of a failure
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

// twin is a counter of the Store, by definition and by package limiter.
type twin struct {
	name       string
	key        string
	limit      limiter.Limit
	definition *definition
	state      limiter.State
}

func newHistory(rt *rapid.T, clock *Clock, subject Subject, number int) *history {
	// The clock can step back by a month and is still later than the real time, at which a store may expire counters.
	start := Epoch().Add(limiter.MaxWindow)
	h := &history{Subject: subject, clock: clock, start: start, now: start, expired: Epoch()}
	for i := range rapid.IntRange(1, 3).Draw(rt, "counters") {
		limit := drawLimit(rt)
		name := fmt.Sprintf("history-%d-%d", number, i)
		identifier := "acme"
		if subject.Spread {
			identifier = name
		}
		h.counters = append(h.counters, &twin{
			name: string(rune('A' + i)), key: subject.key(name, identifier, limit), limit: limit, definition: newDefinition(limit), state: limit.NewState(),
		})
		h.step("limit %c %s", 'A'+i, describe(limit))
	}
	clock.Set(h.now)
	return h
}

func drawLimit(rt *rapid.T) limiter.Limit {
	algorithm := rapid.SampledFrom(algorithms()).Draw(rt, "algorithm")
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

// step adds a step to the message of a failure.
func (h *history) step(format string, args ...any) {
	h.steps = append(h.steps, fmt.Sprintf(format, args...))
}

// fail ends the history, and prints its steps.
func (h *history) fail(rt *rapid.T, format string, args ...any) {
	rt.Helper()
	rt.Fatalf("%s\nafter these steps:\n\t%s", fmt.Sprintf(format, args...), strings.Join(h.steps, "\n\t"))
}

// describe returns a limit as in a scenario file.
func describe(limit limiter.Limit) string {
	text := fmt.Sprintf("%s %d %v", limit.Algorithm(), limit.Units(), limit.Window())
	if limit.Burst() > 0 {
		text += fmt.Sprintf(" %d", limit.Burst())
	}
	return text
}

// charge is a charge of a request, with its counter.
type charge struct {
	*twin
	limiter.Charge
}

// String returns a charge as in a scenario file.
func (c charge) String() string {
	text := fmt.Sprintf("%s*%d", c.name, c.Cost)
	switch most, bounded := c.Limit.MaxDelay(); {
	case bounded && most > 0:
		text += "!" + most.String()
	case bounded:
		text += "!"
	}
	if c.Debt {
		text += "+"
		if c.Whole {
			text += "+"
		}
	}
	if c.Shadow {
		text += "~"
	}
	return text
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
			h.spent = append(h.spent, spent{twin: c.twin, cost: c.Cost, at: got[i].At})
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
	if h.Spread {
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
		if at := c.state.Expires(c.limit); at <= h.now {
			h.expired = max(h.expired, at)
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
	h.step("refund %s*%d at %v", s.name, cost, s.at.Sub(h.start))
	if err := h.Store.Refund(rt.Context(), []limiter.Refund{{Key: s.key, Limit: s.limit, Cost: cost, At: s.at}}); err != nil {
		h.fail(rt, "refund: %v", err)
	}
	if cost > 0 {
		s.state.Refund(h.now, s.limit, cost, s.at)
	}
	if s.definition.refund(h.now, s.limit, cost, s.at) > 0 {
		h.checkExpiry(rt, s.twin, s.limit)
	}
	h.recordExpired()
}

func (h *history) reset(rt *rapid.T) {
	c := rapid.SampledFrom(h.counters).Draw(rt, "counter")
	h.step("reset %s", c.name)
	if err := h.Store.Reset(rt.Context(), []string{c.key}); err != nil {
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

// logCommand logs the command that repeats a failed test. Package rapid first repeats the failed history, which it has
// written to a file.
func logCommand(t *testing.T) {
	t.Helper()
	if !t.Failed() {
		return
	}
	directory, _ := os.Getwd()
	var parts []string
	for ; directory != filepath.Dir(directory); directory = filepath.Dir(directory) {
		if _, err := os.Stat(filepath.Join(directory, "go.mod")); err == nil {
			break
		}
		parts = append([]string{filepath.Base(directory)}, parts...)
	}
	t.Logf("repeat it with: go test -count=1 ./%s -run '^%s$'", path.Join(parts...), strings.ReplaceAll(t.Name(), "/", "$/^"))
}
