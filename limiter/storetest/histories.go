package storetest

import (
	"fmt"
	"math"
	"testing"
	"time"

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
			if subject.Begin != nil {
				subject.Begin()
			}
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
	for _, algorithm := range limiter.Algorithms() {
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
	cost    int64
	instant limiter.Instant
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
