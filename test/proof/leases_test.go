package proof

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/denials"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/lease"
	"github.com/weir-dev/weir/limiter/memstore"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/matching"
	"github.com/weir-dev/weir/limiter/store"
	"github.com/weir-dev/weir/test/proof/promise"
)

// Random histories of leases on a simulated clock: three limiter engines share one store, spend ahead, return what they do not use, and
// crash. The test checks the requests that all three decided with the promises of docs/concepts/leases.md.

const (
	leaseHistories = 12                    // of each algorithm in a round
	leaseTick      = 50 * time.Millisecond // between two rounds of lease.Leases.Run
)

func leaseAlgorithms() []limiter.Algorithm {
	return []limiter.Algorithm{limiter.FixedWindow, limiter.SlidingWindowLog, limiter.SlidingWindowCounter, limiter.TokenBucket}
}

// leaseRun is one history.
type leaseRun struct {
	*rand.Rand

	now      time.Time
	store    *memstore.Store
	replicas [engines]*leaseReplica
	rule     rules.Rule
	limit    limiter.Limit
	log      promise.Log
	unused   int64 // units that the store counts and that no request was admitted on
	most     int64 // the largest value of unused
	admitted int   // requests
	fromRAM  int   // those that were admitted from memory
	calls    int   // of the store
}

// leaseReplica is an engine with its connection to the store.
type leaseReplica struct {
	*engine.Engine

	leases *lease.Leases
	chain  *store.Chain
	run    *leaseRun
}

func (r *leaseReplica) Unavailable(string) bool { return false }

// Spend counts the units in unused; check removes those that were admitted.
func (r *leaseReplica) Spend(ctx context.Context, charges []limiter.Charge) ([]limiter.Decision, error) {
	r.run.calls++
	decisions, err := r.run.store.Spend(ctx, charges)
	if decisions[0].Allowed {
		r.run.unused += charges[0].Cost
	}
	return decisions, err
}

func (r *leaseReplica) Peek(ctx context.Context, charges []limiter.Charge) ([]limiter.Decision, error) {
	return r.run.store.Peek(ctx, charges)
}

// Refund returns the units of ended leases. A bucket returns only those that cannot have drained meanwhile. The promise of a bucket counts
// all others as units that may have been admitted when they were spent.
func (r *leaseReplica) Refund(ctx context.Context, refunds []limiter.Refund) error {
	r.run.calls++
	for _, refund := range refunds {
		r.run.unused -= refund.Cost
		if r.run.limit.Algorithm() == limiter.TokenBucket {
			r.run.log = append(r.run.log, promise.Request{
				From: int64(refund.At), To: int64(refund.At), Units: refund.Cost, Outcome: promise.Lost,
			})
		}
	}
	for _, other := range r.run.replicas { // Redis publishes the keys of counters that were refunded
		other.chain.MayHaveChanged()
	}
	return r.run.store.Refund(ctx, refunds)
}

func (r *leaseReplica) Reset(ctx context.Context, keys []string, id string) error {
	return r.run.store.Reset(ctx, keys, id)
}

func newLeaseRun(t *testing.T, algorithm limiter.Algorithm, seed uint64) *leaseRun {
	t.Helper()
	run := &leaseRun{Rand: rand.New(rand.NewPCG(seed, 2)), now: time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)}
	run.store = memstore.New(run.clock)
	window := 2 + run.Int64N(10)
	run.rule = rules.Rule{
		Policy: "shop/a", Domain: "shop", Axis: "Tenant", Identifier: rules.Identifier{From: rules.FromHeader, Name: "tenant"},
		Algorithm: algorithm, Units: 200 + run.Int64N(800), WindowSeconds: window,
		Lease: &rules.Lease{MaxPercent: 10 + run.Int64N(41), MaxMilliseconds: 100 + run.Int64N(500*window-99)},
	}
	var err error
	if run.limit, err = run.rule.Limit(); err != nil {
		t.Fatal(err)
	}
	for i := range run.replicas {
		run.start(t, i)
	}
	return run
}

func (run *leaseRun) clock() time.Time { return run.now }

// start starts replica i. If it ran before, it crashes: its leases are lost.
func (run *leaseRun) start(t *testing.T, i int) {
	t.Helper()
	set := rules.Set{Rules: []rules.Rule{run.rule}}
	_, revision := rules.Encode(set)
	index, err := matching.NewIndex(set, revision, "weir:")
	if err != nil {
		t.Fatal(err)
	}
	r := &leaseReplica{run: run}
	r.leases = lease.New(r, run.clock)
	r.leases.Share(engines)
	layers := store.Layers{Leases: r.leases, Denials: denials.NewCache(10, run.clock)}
	r.chain = store.New(r, layers, prometheus.NewRegistry())
	r.Engine = engine.New(r.chain, engine.SourceRedis, engine.NewMetrics(prometheus.NewRegistry()), engine.WithClock(run.clock))
	r.Swap(index)
	run.replicas[i] = r
}

// check lets a replica decide a request. A denial is justified if the units of the request do not fit in addition to those that were admitted and
// those that lie unused: the log contains it as a denial of that many units.
func (run *leaseRun) check(t *testing.T, at int) {
	t.Helper()
	cost := int64(1)
	if run.IntN(5) == 0 {
		cost += run.Int64N(5)
	}
	r := run.replicas[at]
	check := tenantCheck("acme")
	check.Cost = cost
	a, err := r.Check(t.Context(), check)
	if err != nil {
		t.Fatal(err)
	}
	now := run.now.UnixMicro()
	entry := promise.Request{From: now, To: now, Units: cost, Outcome: promise.Denied}
	if a.Allowed {
		entry.Outcome = promise.Admitted
		run.unused -= cost
		run.admitted++
	} else {
		entry.Units += run.unused
	}
	run.most = max(run.most, run.unused)
	if a.Source == engine.SourceLease {
		run.fromRAM++
	}
	run.log = append(run.log, entry)
}

// play sends requests for some windows, in phases of different rates, and lets replicas crash.
func (run *leaseRun) play(t *testing.T, crashes bool) {
	t.Helper()
	full := float64(run.limit.Units()) / run.limit.Window().Seconds()
	end := run.now.Add(4 * run.limit.Window())
	tick := run.now.Add(leaseTick)
	for run.now.Before(end) {
		rate := full * []float64{0.2, 0.7, 1.2, 4}[run.IntN(4)]
		a, b := run.Float64(), run.Float64()
		phase := run.now.Add(time.Duration((0.05 + run.Float64()) * float64(run.limit.Window())))
		for run.now.Before(phase) {
			run.now = run.now.Add(time.Duration(run.ExpFloat64()/rate*1e6) * time.Microsecond)
			for ; tick.Before(run.now); tick = tick.Add(leaseTick) {
				for _, r := range run.replicas {
					r.leases.Tick(t.Context())
				}
			}
			pick, at := run.Float64(), 2
			if pick < min(a, b) {
				at = 0
			} else if pick < max(a, b) {
				at = 1
			}
			run.check(t, at)
		}
		if crashes && run.IntN(3) == 0 {
			run.start(t, run.IntN(engines))
		}
	}
}

func TestLeases_KeepThePromisesInRandomHistories(t *testing.T) {
	for _, algorithm := range leaseAlgorithms() {
		t.Run(string(algorithm), func(t *testing.T) {
			var admitted, fromRAM int
			unused := 0.0
			rounds(t, func(number int) {
				for i := range leaseHistories {
					seed := uint64(number*leaseHistories + i)
					run := newLeaseRun(t, algorithm, seed)
					run.play(t, i%2 == 1)
					admitted += run.admitted
					fromRAM += run.fromRAM
					share := run.limit.Units() * run.rule.Lease.MaxPercent / 100
					for _, p := range promise.Leased(promiseWith(run.limit, 0), run.rule.Lease.MaxMilliseconds*1000, share) {
						if err := p.CheckAdmitted(run.log); err != nil {
							t.Errorf("history %d, %+v: %v", seed, *run.rule.Lease, err)
						}
					}
					if err := promiseWith(run.limit, 0).CheckDenied(run.log); err != nil {
						t.Errorf("history %d, %+v: %v", seed, *run.rule.Lease, err)
					}
					if i%2 == 0 {
						unused = max(unused, float64(run.most)/float64(share))
					}
				}
			})
			t.Logf("%d requests were admitted, %d from memory; at most %.2f of the share lay unused", admitted, fromRAM, unused)
			if fromRAM < admitted/3 {
				t.Errorf("%d of %d requests were admitted from memory: too few to show anything", fromRAM, admitted)
			}
		})
	}
}
