package proof

import (
	"strconv"
	"testing"
	"time"

	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/test/proof/promise"
)

// Replicas with the same demand, which together is above the limit, admit the same within 10 %.
func TestLeases_AreFair(t *testing.T) {
	for _, algorithm := range leaseAlgorithms() {
		t.Run(string(algorithm), func(t *testing.T) {
			run := newLeaseRun(t, algorithm, 7)
			window := run.limit.Window()
			var admitted [engines]float64
			end := run.now.Add(10 * window)
			interval := time.Duration(float64(window) / float64(run.limit.Units()) / 2)
			for n := 0; run.now.Before(end); n++ {
				at := run.IntN(engines)
				before := len(run.log)
				run.check(t, at)
				for _, r := range run.log[before:] {
					if r.Outcome == promise.Admitted {
						admitted[at] += float64(r.Units)
					}
				}
				run.now = run.now.Add(interval.Truncate(time.Microsecond))
				if n%20 == 0 {
					for _, r := range run.replicas {
						r.leases.Tick(t.Context())
					}
				}
			}
			mean := (admitted[0] + admitted[1] + admitted[2]) / engines
			t.Logf("%v with %+v: units admitted by each replica: %.0f", run.limit, *run.rule.Lease, admitted)
			for i, units := range admitted {
				if units < 0.9*mean || units > 1.1*mean {
					t.Errorf("replica %d admitted %.0f units, want within 10 %% of %.0f", i, units, mean)
				}
			}
		})
	}
}

// Requests for 100 busy counters, 10 000 in a second, need one fiftieth of the calls. Refunds of many counters share a call.
func TestLeases_SaveCallsOfTheStore(t *testing.T) {
	const counters, seconds, perSecond = 100, 20, 10_000
	for _, algorithm := range leaseAlgorithms() {
		t.Run(string(algorithm), func(t *testing.T) {
			run := newLeaseRun(t, algorithm, 1)
			run.rule.Units, run.rule.WindowSeconds = 100_000, 60
			run.rule.Lease = &rules.Lease{MaxPercent: 10, MaxMilliseconds: 1000}
			run.start(t, 0)
			r := run.replicas[0]
			tick := run.now
			for range seconds * perSecond {
				if a, err := r.Check(t.Context(), tenantCheck(strconv.Itoa(run.IntN(counters)))); err != nil || !a.Allowed {
					t.Fatalf("%+v, %v", a, err)
				}
				run.now = run.now.Add(time.Second / perSecond)
				for ; tick.Before(run.now); tick = tick.Add(leaseTick) {
					r.leases.Tick(t.Context())
				}
			}
			fewer := float64(seconds*perSecond) / float64(run.calls)
			t.Logf("%d calls of the store for %d requests: %.0f times fewer", run.calls, seconds*perSecond, fewer)
			if fewer < 50 {
				t.Errorf("%.0f times fewer calls, want 50", fewer)
			}
		})
	}
}

func tenantCheck(tenant string) *engine.Check {
	return &engine.Check{Cost: 1, Request: rules.Request{Domain: "shop", Path: "/", Headers: map[string]string{"tenant": tenant}}}
}
