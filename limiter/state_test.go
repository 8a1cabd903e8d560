package limiter_test

import (
	"math/big"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-dev/weir/limiter"
)

// A model computes from the definition alone, slowly, the number of units that are used at an instant.
type model interface {
	admit(now limiter.Instant, units int64)
	used(now limiter.Instant) *big.Rat
}

type admission struct {
	at    limiter.Instant
	units int64
}

// logModel is the sum of the units admitted in (now − window, now].
type logModel struct {
	window   limiter.Instant
	admitted []admission
}

func (m *logModel) admit(now limiter.Instant, units int64) {
	m.admitted = append(m.admitted, admission{now, units})
}

func (m *logModel) used(now limiter.Instant) *big.Rat {
	var sum int64
	for _, a := range m.admitted {
		if a.at > now-m.window && a.at <= now {
			sum += a.units
		}
	}
	return new(big.Rat).SetInt64(sum)
}

// counterModel is current + previous · (window − elapsed)/window, in fractions.
type counterModel struct {
	window limiter.Instant
	counts map[limiter.Instant]int64
}

func (m *counterModel) admit(now limiter.Instant, units int64) { m.counts[now/m.window] += units }

func (m *counterModel) used(now limiter.Instant) *big.Rat {
	current, elapsed := now/m.window, now%m.window
	weighted := big.NewRat(int64(m.window-elapsed), int64(m.window))
	weighted.Mul(weighted, new(big.Rat).SetInt64(m.counts[current-1]))
	return weighted.Add(weighted, new(big.Rat).SetInt64(m.counts[current]))
}

// fixedModel is the count of the current window.
type fixedModel struct{ counterModel }

func (m *fixedModel) used(now limiter.Instant) *big.Rat {
	return new(big.Rat).SetInt64(m.counts[now/m.window])
}

// firstRequestModel is the count of a window that begins with its first unit: the algorithm of the tag sixthalgorithm.
type firstRequestModel struct {
	window, opened limiter.Instant
	units          int64
}

func (m *firstRequestModel) admit(now limiter.Instant, units int64) {
	if m.used(now).Sign() == 0 {
		m.opened, m.units = now, 0
	}
	m.units += units
}

func (m *firstRequestModel) used(now limiter.Instant) *big.Rat {
	if now >= m.opened+m.window {
		return new(big.Rat)
	}
	return new(big.Rat).SetInt64(m.units)
}

// bucketModel is a level that falls by limit/window, in fractions.
type bucketModel struct {
	rate  *big.Rat // units per microsecond
	at    limiter.Instant
	level *big.Rat
}

func (m *bucketModel) admit(now limiter.Instant, units int64) {
	m.level = new(big.Rat).Add(m.used(now), new(big.Rat).SetInt64(units))
	m.at = now
}

func (m *bucketModel) used(now limiter.Instant) *big.Rat {
	sunk := new(big.Rat).Mul(m.rate, new(big.Rat).SetInt64(int64(now-m.at)))
	if level := new(big.Rat).Sub(m.level, sunk); level.Sign() > 0 {
		return level
	}
	return new(big.Rat)
}

func newModel(limit limiter.Limit) model {
	window := limiter.Instant(limit.Window().Microseconds())
	counter := counterModel{window: window, counts: map[limiter.Instant]int64{}}
	switch limit.Algorithm() {
	case limiter.SlidingWindowLog:
		return &logModel{window: window}
	case limiter.SlidingWindowCounter:
		return &counter
	case limiter.FixedWindow:
		return &fixedModel{counter}
	case "FirstRequestWindow":
		return &firstRequestModel{window: window}
	default:
		return &bucketModel{rate: big.NewRat(limit.Units(), int64(window)), level: new(big.Rat)}
	}
}

// capacityOf is the largest number of units that can be used at the same time.
func capacityOf(limit limiter.Limit) int64 {
	switch limit.Algorithm() {
	case limiter.TokenBucket:
		return limit.Burst()
	case limiter.LeakyBucket:
		return limit.Burst() + 1
	default:
		return limit.Units()
	}
}

// The test compares every field of every decision in random histories with the definition: whether the charge is allowed, that exactly
// Remaining units can be spent now, and that RetryAfter and ResetAfter end at exactly the first possible microsecond.
func TestDecide_FollowsTheDefinition(t *testing.T) {
	for _, algorithm := range limiter.Algorithms() {
		t.Run(string(algorithm), func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) { playHistory(rt, algorithm) })
		})
	}
}

func playHistory(rt *rapid.T, algorithm limiter.Algorithm) {
	limit := drawLimit(rt, algorithm)
	capacity, window := capacityOf(limit), limit.Window()
	state, model := limit.NewState(), newModel(limit)
	now := limiter.At(time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC))
	for range rapid.IntRange(1, 30).Draw(rt, "steps") {
		now += limiter.Instant(rapid.Int64Range(0, window.Microseconds()*2/3).Draw(rt, "wait"))
		cost := rapid.OneOf(rapid.Int64Range(1, 3), rapid.Int64Range(1, capacity+1)).Draw(rt, "cost")
		d := state.Decide(now, limit, cost)
		checkDecision(rt, now, limit, cost, d, model)
		if d.Allowed {
			state.Spend(now, limit, cost)
			model.admit(now, cost)
		}
		if at := state.Expires(limit); d.Allowed && (passes(model, limit, at-1, capacity) || !passes(model, limit, at, capacity)) {
			rt.Fatalf("expires at %v, which is not the first instant at which no unit counts", at)
		}
	}
}

func drawLimit(rt *rapid.T, algorithm limiter.Algorithm) limiter.Limit {
	units := rapid.Int64Range(1, 20).Draw(rt, "units")
	if algorithm != limiter.SlidingWindowLog && rapid.Bool().Draw(rt, "huge") {
		units = limiter.MaxUnits
	}
	window := rapid.SampledFrom([]time.Duration{time.Second, 7 * time.Second, limiter.MaxWindow}).Draw(rt, "window")
	limit, err := limiter.NewLimit(algorithm, units, window)
	if err == nil && (algorithm == limiter.TokenBucket || algorithm == limiter.LeakyBucket) && rapid.Bool().Draw(rt, "burst") {
		limit, err = limit.WithBurst(rapid.Int64Range(1, 40).Draw(rt, "units of burst"))
	}
	if err != nil {
		rt.Fatal(err)
	}
	return limit
}

// passes reports whether the definition admits cost at an instant.
func passes(m model, limit limiter.Limit, at limiter.Instant, cost int64) bool {
	sum := new(big.Rat).Add(m.used(at), new(big.Rat).SetInt64(cost))
	return sum.Cmp(new(big.Rat).SetInt64(capacityOf(limit))) <= 0
}

func checkDecision(rt *rapid.T, now limiter.Instant, limit limiter.Limit, cost int64, d limiter.Decision, m model) {
	if want := passes(m, limit, now, cost); d.Allowed != want {
		rt.Fatalf("cost %d: allowed %v, by definition %v: %+v", cost, d.Allowed, want, d)
	}
	if !passes(m, limit, now, d.Remaining) || passes(m, limit, now, d.Remaining+1) {
		rt.Fatalf("remaining %d is not the number of units that can be spent now", d.Remaining)
	}
	full := now.Add(d.ResetAfter)
	if !passes(m, limit, full, capacityOf(limit)) || d.ResetAfter > 0 && passes(m, limit, full-1, capacityOf(limit)) {
		rt.Fatalf("%v is not the shortest time after which the full limit is available", d.ResetAfter)
	}
	if want := waitOf(now, limit, d, m); d.Delay != want {
		rt.Fatalf("delay %v, by definition %v", d.Delay, want)
	}
	switch {
	case d.Allowed:
		if d.RetryAfter != 0 {
			rt.Fatalf("allowed with RetryAfter %v, want 0", d.RetryAfter)
		}
	case cost > capacityOf(limit):
		if d.RetryAfter != limiter.Never {
			rt.Fatalf("cost %d of %d can never be allowed, but RetryAfter is %v", cost, capacityOf(limit), d.RetryAfter)
		}
	default:
		retry := now.Add(d.RetryAfter)
		if !passes(m, limit, retry, cost) || passes(m, limit, retry-1, cost) {
			rt.Fatalf("%[2]v is not the shortest wait after which cost %[1]d is allowed", cost, d.RetryAfter)
		}
	}
}

// waitOf is how long an allowed request waits by the definition: in a leaky bucket, until all units before it have left.
func waitOf(now limiter.Instant, limit limiter.Limit, d limiter.Decision, m model) time.Duration {
	if limit.Algorithm() != limiter.LeakyBucket || !d.Allowed {
		return 0
	}
	perUnit := big.NewRat(limit.Window().Microseconds(), limit.Units())
	wait := perUnit.Mul(perUnit, m.used(now))
	microseconds := new(big.Int).Div(wait.Num(), wait.Denom())
	if !wait.IsInt() {
		microseconds.Add(microseconds, big.NewInt(1))
	}
	return time.Duration(microseconds.Int64()) * time.Microsecond
}

// Whenever requests arrive, two requests leave at least window/limit apart, apart from rounding to the microsecond.
func TestLeakyBucket_AdmitsOneAtATime(t *testing.T) {
	limit, err := mustLimit(t, limiter.LeakyBucket, 7, time.Second).WithBurst(5)
	if err != nil {
		t.Fatal(err)
	}
	apart := time.Second / 7
	rapid.Check(t, func(rt *rapid.T) {
		state := limit.NewState()
		now := limiter.At(time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC))
		last := limiter.Instant(0)
		for range rapid.IntRange(1, 60).Draw(rt, "requests") {
			now += limiter.Instant(rapid.OneOf(rapid.Int64Range(0, 3), rapid.Int64Range(0, 400_000)).Draw(rt, "wait"))
			d := state.Decide(now, limit, 1)
			if !d.Allowed {
				continue
			}
			state.Spend(now, limit, 1)
			leaves := now.Add(d.Delay)
			if leaves.Sub(last) < apart-time.Microsecond {
				rt.Fatalf("two requests leave %v apart, want %v", leaves.Sub(last), apart)
			}
			last = leaves
		}
	})
}

// With a clock that steps in both directions, by up to one window, a log never admits more than its limit within a window of its own time,
// which never goes backwards.
func TestSlidingWindowLog_HoldsTheLimitWhenTheClockSteps(t *testing.T) {
	limit := mustLimit(t, limiter.SlidingWindowLog, 5, time.Second)
	rapid.Check(t, func(rt *rapid.T) {
		state, m := limit.NewState(), newModel(limit)
		now := limiter.At(time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC))
		latest := limiter.Instant(0)
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			now += limiter.Instant(rapid.Int64Range(-400_000, 500_000).Draw(rt, "step"))
			now = max(now, latest.Add(-limit.Window()))
			if !state.Decide(now, limit, 1).Allowed {
				continue
			}
			state.Spend(now, limit, 1)
			latest = max(latest, now)
			m.admit(latest, 1)
			if m.used(latest).Cmp(big.NewRat(5, 1)) > 0 {
				rt.Fatalf("%v units within one window, want at most 5", m.used(latest))
			}
		}
	})
}
