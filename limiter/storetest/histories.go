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

// stepsEverywhere is how many steps Histories takes under each algorithm at the least: one check of package rapid, as a
// rule. Some stores are slow to test; [HistoriesOf] takes more where it is worth it.
const stepsEverywhere = 300

// Histories is [HistoriesOf] in the number of steps that every Store takes.
func Histories(t *testing.T, factory Factory) {
	t.Helper()
	HistoriesOf(t, factory, stepsEverywhere)
}

// HistoriesOf plays random histories (limits small and huge, edits of them, costs, shadows, peeks, clock steps of a
// microsecond, to and around every moment that matters, and backwards) on the Store and on the pure algorithms, which
// must agree on every decision. It goes on until at least so many steps have been taken under each algorithm: a step
// is a spend or a peek whose decision under it was compared; what else happens in between is not counted. The flag
// -rapid.checks sets how many histories are played between two looks at the number, -rapid.steps how long they are.
func HistoriesOf(t *testing.T, factory Factory, steps int) {
	t.Helper()
	clock := &Clock{}
	subject := factory(t, clock)
	histories, taken := 0, map[limiter.Algorithm]int{}
	for round := 0; fewest(taken) < steps; round++ {
		if round == steps { // not one step of each in a round
			t.Fatalf("after %d histories only %v steps were taken, want %d of each: raise -rapid.checks or -rapid.steps", histories, taken, steps)
		}
		rapid.Check(t, func(rt *rapid.T) {
			histories++
			h := newHistory(rt, clock, subject, histories)
			h.taken = taken
			rt.Repeat(map[string]func(*rapid.T){
				"spend":  func(rt *rapid.T) { h.ask(rt, "spend", subject.Store.Spend, limiter.Spend) },
				"peek":   func(rt *rapid.T) { h.ask(rt, "peek", subject.Store.Peek, limiter.Peek) },
				"wait":   h.wait,
				"edit":   h.edit,
				"refund": func(rt *rapid.T) { h.refund(rt, subject.Store) },
				"reset":  func(rt *rapid.T) { h.reset(rt, subject.Store) },
			})
		})
	}
	t.Logf("%d histories, steps: %v", histories, taken)
}

// fewest is how many steps the algorithm has that has the fewest.
func fewest(taken map[limiter.Algorithm]int) int {
	least := math.MaxInt
	for _, algorithm := range algorithms() {
		least = min(least, taken[algorithm])
	}
	return least
}

// history is one run: the twin's states beside the Store's, on a few keys.
type history struct {
	clock    *Clock
	spread   bool
	now      limiter.Instant
	counters []*twin
	// expired is the latest moment at which a counter went away: the clock does not step back behind it, for a store
	// may have forgotten the counter by then, and need not.
	expired limiter.Instant
	spent   []spent
	taken   map[limiter.Algorithm]int // steps, of all histories
	hints   []time.Duration           // waits that were answered last: the moments at which something changes
}

// spent is a charge that was counted, and may be refunded.
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
	// There is a month to step back before the real time comes, at which a store may expire counters by its own clock.
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

// drawBurst gives a bucket another burst, or leaves it the one it has.
func drawBurst(rt *rapid.T, limit limiter.Limit) limiter.Limit {
	burst := rapid.OneOf(rapid.Int64Range(-1, 5), rapid.Int64Range(0, limiter.MaxUnits)).Draw(rt, "burst")
	if other, err := limit.WithBurst(burst); err == nil {
		return other
	}
	return limit
}

// algorithms are all there are.
func algorithms() []limiter.Algorithm {
	return []limiter.Algorithm{
		limiter.FixedWindow, limiter.SlidingWindowLog, limiter.SlidingWindowCounter, limiter.TokenBucket, limiter.LeakyBucket,
	}
}

func drawUnits(rt *rapid.T, algorithm limiter.Algorithm) int64 {
	units := rapid.OneOf(rapid.Int64Range(1, 5), rapid.Int64Range(1, 200))
	large := rapid.Int64Range(limiter.MaxUnits-5, limiter.MaxUnits)
	if algorithm == limiter.SlidingWindowLog {
		large = rapid.Int64Range(250, 300) // about where a store may keep it in another way
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

type decide = func(limiter.Instant, []limiter.Charge, []limiter.State) []limiter.Decision

func (h *history) ask(rt *rapid.T, what string, ask ask, decide decide) {
	var asked []*twin
	var charges []limiter.Charge
	var states []limiter.State
	for i, c := range h.counters {
		if i > 0 && rapid.Bool().Draw(rt, "leave out") {
			continue
		}
		charges = append(charges, limiter.Charge{
			Key: c.key, Limit: drawPatience(rt, c.limit), Cost: drawCost(rt, c.limit.Units()), Shadow: rapid.IntRange(0, 3).Draw(rt, "shadow") == 3,
		})
		states = append(states, c.state)
		asked = append(asked, c)
	}
	got, err := ask(rt.Context(), charges)
	if err != nil {
		rt.Fatalf("%s: %v", what, err)
	}
	want := decide(h.now, charges, states)
	if diff := cmp.Diff(want, got); diff != "" {
		rt.Fatalf("%s at %d of %+v: the store differs from the algorithms (-algorithms +store):\n%s", what, h.now, charges, diff)
	}
	h.count(charges)
	h.hints = h.hints[:0]
	for i, d := range want {
		if what == "spend" && d.Allowed {
			h.spent = append(h.spent, spent{twin: asked[i], cost: charges[i].Cost, at: d.At})
		}
		h.hints = append(h.hints, d.ResetAfter, d.RetryAfter)
	}
}

// drawPatience asks some for what need not wait.
func drawPatience(rt *rapid.T, limit limiter.Limit) limiter.Limit {
	if limit.Algorithm() == limiter.LeakyBucket && rapid.Bool().Draw(rt, "at once") {
		return limit.NoDelay()
	}
	return limit
}

// count counts a step for every algorithm that took part in it.
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

// wait moves the clock: a little, anywhere within two windows, to a moment that was answered or a microsecond beside
// it, or backwards, but not behind the end of a counter.
func (h *history) wait(rt *rapid.T) {
	window := h.counters[0].limit.Window().Microseconds()
	step := rapid.OneOf(
		rapid.Int64Range(0, 2),
		rapid.Int64Range(0, 2*window),
		rapid.Int64Range(-window/4, 0),
	).Draw(rt, "microseconds")
	if len(h.hints) > 0 && rapid.Bool().Draw(rt, "to a moment answered") {
		hint := rapid.SampledFrom(h.hints).Draw(rt, "moment")
		if hint != limiter.Never {
			step = hint.Microseconds() + rapid.Int64Range(-1, 1).Draw(rt, "beside")
		}
	}
	if h.spread {
		step = max(0, step) // a spend that is taken back leaves the counter's own time where it was spent
	}
	h.now = max(h.now+limiter.Instant(step), h.expired)
	h.forget()
	h.clock.Set(h.now)
}

// forget notes the counters that have gone by now.
func (h *history) forget() {
	for _, c := range h.counters {
		if at := c.state.Expires(c.limit); at <= h.now {
			h.expired = max(h.expired, at)
		}
	}
}

// refund takes back some of what was spent once, or, twice in a row, what was taken back already.
func (h *history) refund(rt *rapid.T, store limiter.Store) {
	if len(h.spent) == 0 {
		return
	}
	s := rapid.SampledFrom(h.spent).Draw(rt, "spent")
	cost := rapid.Int64Range(0, s.cost).Draw(rt, "taken back")
	if err := store.Refund(rt.Context(), []limiter.Refund{{Key: s.key, Limit: s.limit, Cost: cost, At: s.at}}); err != nil {
		rt.Fatalf("refund: %v", err)
	}
	s.state.Refund(h.now, s.limit, cost, s.at)
	h.forget()
}

func (h *history) reset(rt *rapid.T, store limiter.Store) {
	c := rapid.SampledFrom(h.counters).Draw(rt, "counter")
	if err := store.Reset(rt.Context(), []string{c.key}); err != nil {
		rt.Fatalf("reset: %v", err)
	}
	c.state = c.limit.NewState()
}

// edit changes a limit: what was spent stays.
func (h *history) edit(rt *rapid.T) {
	c := rapid.SampledFrom(h.counters).Draw(rt, "counter")
	if h.spread && (c.limit.Algorithm() == limiter.TokenBucket || c.limit.Algorithm() == limiter.LeakyBucket) {
		return // a spend that is taken back leaves a bucket draining by the new limit: stricter than the twin
	}
	c.limit = drawBurst(rt, mustLimit(c.limit.Algorithm(), drawUnits(rt, c.limit.Algorithm()), c.limit.Window()))
}
