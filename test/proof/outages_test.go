package proof

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/denials"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/failover"
	"github.com/weir-dev/weir/limiter/lease"
	"github.com/weir-dev/weir/limiter/local"
	"github.com/weir-dev/weir/limiter/memstore"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/matching"
	"github.com/weir-dev/weir/limiter/store"
	"github.com/weir-dev/weir/test/proof/promise"
)

// Random outages on a simulated clock: three limiter engines share one store, which becomes unavailable in the middle of a
// window and recovers. The test checks the requests that all three admitted: with the promise, and with the bound of
// docs/concepts/local-mode.md, which is the limit and the units that the replicas could not know when the outage began.

const (
	outagesPerAlgorithm = 25 // in a round
	engines             = 3
	longestStagger      = 400 * time.Millisecond // from the first engine whose store recovers to the last one
)

// outageRun is one history.
type outageRun struct {
	*rand.Rand

	now      time.Time
	store    *memstore.Store
	replicas [engines]*outageReplica
	limit    limiter.Limit
	lease    *rules.Lease // of the policy; nil: Exact
	log      promise.Log
	// decidedBy has the replica of each request in log.
	decidedBy []int
	ended     time.Time // the outage, see wholeShares
}

// outageReplica is an engine with its connection to the store.
type outageReplica struct {
	*engine.Engine

	failover *failover.Store
	leases   *lease.Leases

	run         *outageRun
	unavailable bool
	unknown     int64 // units that the store counted for other replicas since its last reply to this one
	gaps        []gap // one for each reply
}

// gap is the number of units that other replicas admitted between two replies to a replica.
type gap struct {
	until time.Time
	units int64
}

var errUnavailable = errors.New("the store is unavailable")

func (r *outageReplica) Unavailable(string) bool { return r.unavailable }

func (r *outageReplica) Spend(ctx context.Context, charges []limiter.Charge) ([]limiter.Decision, error) {
	if r.unavailable {
		return nil, errUnavailable
	}
	decisions, err := r.run.store.Spend(ctx, charges)
	r.gaps = append(r.gaps, gap{r.run.now, r.unknown})
	r.unknown = 0
	for _, other := range r.run.replicas {
		if other != r && decisions[0].Allowed {
			other.unknown += charges[0].Cost
		}
	}
	return decisions, err
}

func (r *outageReplica) Peek(ctx context.Context, charges []limiter.Charge) ([]limiter.Decision, error) {
	return r.run.store.Peek(ctx, charges)
}

func (r *outageReplica) Refund(ctx context.Context, refunds []limiter.Refund) error {
	return r.run.store.Refund(ctx, refunds)
}

func (r *outageReplica) Reset(ctx context.Context, keys []string, id string) error {
	return r.run.store.Reset(ctx, keys, id)
}

func (r *outageReplica) ReportUsage(ctx context.Context, charge limiter.Charge) (uncounted bool, err error) {
	for charge.Cost > 0 {
		decisions, err := r.run.store.Spend(ctx, []limiter.Charge{charge})
		if err != nil || decisions[0].Allowed {
			return false, err
		}
		charge.Cost = decisions[0].Remaining
	}
	return false, nil
}

func newOutageRun(t *testing.T, algorithm limiter.Algorithm, leased bool, seed uint64, edits ...func(*rules.Rule)) *outageRun {
	t.Helper()
	run := &outageRun{
		Rand: rand.New(rand.NewPCG(seed, 1)),
		now:  time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC),
	}
	clock := func() time.Time { return run.now }
	run.store = memstore.New(clock)
	rule := rules.Rule{
		Policy: "shop/a", Domain: "shop", Axis: "Tenant", Identifier: rules.Identifier{From: rules.FromHeader, Name: "tenant"},
		Algorithm: algorithm, Units: 30 + run.Int64N(300), WindowSeconds: 2 + run.Int64N(20),
	}
	if algorithm == limiter.LeakyBucket {
		rule.Burst = rule.Units - 1
	}
	if leased {
		rule.Units += 100
		rule.Lease = &rules.Lease{MaxPercent: 20 + run.Int64N(31), MaxMilliseconds: 100 + run.Int64N(500*rule.WindowSeconds-99)}
	}
	for _, edit := range edits {
		edit(&rule)
	}
	limit, err := rule.Limit()
	if err != nil {
		t.Fatal(err)
	}
	run.limit, run.lease = limit, rule.Lease
	set := rules.Set{Rules: []rules.Rule{rule}}
	_, revision := rules.Encode(set)
	index, err := matching.NewIndex(set, revision, "weir:")
	if err != nil {
		t.Fatal(err)
	}
	for i := range run.replicas {
		counters := local.New(1<<20, clock)
		counters.Share(local.Peers{Replicas: engines, Rank: int64(i)})
		r := &outageReplica{run: run}
		r.failover = failover.New(r, counters, clock, slog.New(slog.DiscardHandler))
		r.leases = lease.New(r, clock)
		r.leases.Share(engines)
		layers := store.Layers{Leases: r.leases, Denials: denials.NewCache(10, clock), Failover: r.failover}
		chain := store.New(nil, layers, prometheus.NewRegistry())
		r.Engine = engine.New(chain, engine.SourceRedis, engine.NewMetrics(prometheus.NewRegistry()), engine.WithClock(clock))
		r.Swap(index)
		run.replicas[i] = r
	}
	return run
}

// check lets a replica decide a request for one unit.
func (run *outageRun) check(t *testing.T, at int) {
	t.Helper()
	r := run.replicas[at]
	a, err := r.Check(t.Context(), &engine.Check{Cost: 1, Request: rules.Request{
		Domain: "shop", Path: "/", Headers: map[string]string{"tenant": "acme"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	now := run.now.UnixMicro()
	entry := promise.Request{From: now, To: now, Units: 1, Delay: a.Delay.Microseconds(), Outcome: promise.Denied}
	if a.Allowed {
		entry.Outcome = promise.Admitted
	}
	run.log, run.decidedBy = append(run.log, entry), append(run.decidedBy, at)
}

// play sends requests to the replicas, in proportion to their weights, until an instant. It calls the functions of due at
// their times.
func (run *outageRun) play(t *testing.T, until time.Time, rate float64, weights [engines]float64, due map[time.Time]func()) {
	t.Helper()
	instants := make([]time.Time, 0, len(due))
	for at := range due {
		instants = append(instants, at)
	}
	sort.Slice(instants, func(i, j int) bool { return instants[i].Before(instants[j]) })
	for {
		next := run.now.Add(time.Duration(run.ExpFloat64() / rate * float64(time.Second)))
		for len(instants) > 0 && !instants[0].After(next) {
			run.now = instants[0]
			due[instants[0]]()
			instants = instants[1:]
		}
		if next.After(until) {
			run.now = until
			return
		}
		run.now = next
		pick, at := run.Float64(), 0
		for at < engines-1 && pick >= weights[at] {
			pick -= weights[at]
			at++
		}
		run.check(t, at)
		for _, r := range run.replicas {
			r.leases.Tick(t.Context())
		}
	}
}

// unknownBound is the bound of docs/concepts/local-mode.md for the units that are admitted above the limit. The outage begins
// now, and stagger is the time between the recovery of the first replica and of the last one.
func (run *outageRun) unknownBound(stagger time.Duration) int64 {
	limit := run.limit
	var sum int64
	for _, r := range run.replicas {
		most := r.unknown
		for _, g := range r.gaps {
			if run.now.Sub(g.until) < 2*limit.Window() {
				most = max(most, g.units)
			}
		}
		sum += min(2*most, limit.Capacity())
	}
	bound := (sum+engines-1)/engines + engines - 1
	switch limit.Algorithm() {
	case limiter.SlidingWindowLog:
		bound += (limit.Units() + 63) / 64
	case limiter.TokenBucket, limiter.LeakyBucket:
		bound += int64(math.Ceil(stagger.Seconds() / limit.Window().Seconds() * float64(limit.Units())))
	}
	return bound
}

// promiseWith returns the promise of a limit that is higher by more units.
func promiseWith(limit limiter.Limit, more int64) promise.Promise {
	units, window := limit.Units(), limit.Window().Microseconds()
	switch limit.Algorithm() {
	case limiter.FixedWindow:
		return promise.FixedWindow{Limit: units + more, Window: window}
	case limiter.SlidingWindowLog:
		return promise.SlidingWindowLog{Limit: units + more, Window: window}
	case limiter.SlidingWindowCounter:
		return promise.SlidingWindowCounter{Limit: units + more, Window: window}
	default: // each replica has its own queue of a LeakyBucket while the store is unavailable
		return promise.TokenBucket{Limit: units, Window: window, Burst: limit.Capacity() + more}
	}
}

// unitsOver returns by how many units the log exceeds the promise.
func (run *outageRun) unitsOver() int64 {
	return int64(sort.Search(int(3*run.limit.Capacity()), func(more int) bool {
		promises := []promise.Promise{promiseWith(run.limit, int64(more))}
		if run.lease != nil {
			promises = promise.Leased(promises[0], run.lease.MaxMilliseconds*1000, run.limit.Units()*run.lease.MaxPercent/100)
		}
		return !slices.ContainsFunc(promises, func(p promise.Promise) bool { return p.CheckAdmitted(run.log) != nil })
	}))
}

func TestFailover_StaysWithinTheBoundInRandomOutages(t *testing.T) {
	for _, algorithm := range []limiter.Algorithm{
		limiter.FixedWindow, limiter.SlidingWindowLog, limiter.SlidingWindowCounter, limiter.TokenBucket, limiter.LeakyBucket,
	} {
		t.Run(string(algorithm), func(t *testing.T) { randomOutages(t, algorithm, false, 0.9) })
	}
}

// The units of leases are spent in the store before the outage. Those that lie unused when it begins are not admitted if the lease ends.
func TestLeases_StayWithinTheBoundOfLocalModeInRandomOutages(t *testing.T) {
	for _, algorithm := range leaseAlgorithms() {
		t.Run(string(algorithm), func(t *testing.T) { randomOutages(t, algorithm, true, 0.8) })
	}
}

// randomOutages plays histories with one outage each. least is the part of the limit that must be admitted if all replicas receive more
// requests than their shares.
func randomOutages(t *testing.T, algorithm limiter.Algorithm, leased bool, least float64) {
	t.Helper()
	worst, lowest := 0.0, 1.0
	rounds(t, func(number int) {
		for i := range outagesPerAlgorithm {
			seed := uint64(number*outagesPerAlgorithm + i)
			if leased && i%2 == 1 {
				continue // these histories take longer
			}
			run := newOutageRun(t, algorithm, leased, seed)
			result := run.outage(t)
			if result.over > result.bound {
				t.Errorf("outage %d, %v: %d units above the limit, want at most %d", seed, run.limit, result.over, result.bound)
			}
			worst = max(worst, float64(result.over)/float64(run.limit.Units()))
			if !result.even {
				continue
			}
			if result.share < least {
				t.Errorf("outage %d, %v: with all replicas saturated %.0f %% of the limit was admitted, want at least %.0f %%",
					seed, run.limit, 100*result.share, 100*least)
			}
			lowest = min(lowest, result.share)
		}
	})
	t.Logf("at most %.1f %% above the limit; with all replicas saturated, at least %.0f %% of the limit was admitted", 100*worst, 100*lowest)
}

// outageResult is the result of a history with one outage.
type outageResult struct {
	over, bound int64
	even        bool    // every replica received more requests than its share all the time
	share       float64 // part of the limit that was admitted during the outage
}

func (run *outageRun) outage(t *testing.T) outageResult {
	t.Helper()
	window := run.limit.Window()
	full := float64(run.limit.Units()) / window.Seconds()
	rate, weights := full*(1.5+6*run.Float64()), [engines]float64{1. / 3, 1. / 3, 1. / 3}
	even := run.IntN(2) == 0
	if even {
		rate = full * (3 + 3*run.Float64())
	} else {
		a, b := run.Float64(), run.Float64()
		weights = [engines]float64{min(a, b), max(a, b) - min(a, b), 1 - max(a, b)}
	}
	run.play(t, run.now.Add(time.Duration((1+2*run.Float64())*float64(window))), rate, weights, nil)

	stagger := longestStagger
	bound := run.unknownBound(stagger)
	began := run.now
	for _, r := range run.replicas {
		r.unavailable = true
	}
	duration := time.Duration((0.1 + 2.5*run.Float64()) * float64(window))
	run.play(t, run.now.Add(duration), rate, weights, nil)
	ended := run.now

	due := map[time.Time]func(){}
	for _, r := range run.replicas {
		at := run.now.Add(time.Duration(run.Int64N(int64(min(stagger, duration)))))
		due[at] = func() {
			if err := r.failover.Recovering(t.Context(), run.now.Sub(began)); err != nil {
				t.Error(err)
			}
			r.unavailable = false
		}
	}
	run.play(t, run.now.Add(2*window+longestStagger), rate, weights, due)
	return outageResult{
		over: run.unitsOver(), bound: bound,
		even: even, share: run.shareOf(began, ended),
	}
}

// shareOf returns the average part of the limit that was admitted in the whole windows within [began, ended]; 1 if there is no
// whole window. Units of a log expire late by 1/64 of a window, and so do the units that replace them, in every window.
func (run *outageRun) shareOf(began, ended time.Time) float64 {
	window := run.limit.Window().Microseconds()
	first, last := began.UnixMicro()/window+1, ended.UnixMicro()/window
	if last <= first {
		return 1
	}
	late := int64(0)
	if run.limit.Algorithm() == limiter.SlidingWindowLog {
		late = (last - first + 1) * window / 64
	}
	var units int64
	for _, r := range run.log {
		if r.Outcome == promise.Admitted && r.From >= first*window && r.From < min(last*window+late, ended.UnixMicro()) {
			units += r.Units
		}
	}
	return float64(units) / float64((last-first)*run.limit.Units())
}

// ResetOnce implements failover.Remote.
func (r *outageReplica) ResetOnce(ctx context.Context, key, _ string) error {
	return r.Reset(ctx, []string{key}, "")
}
