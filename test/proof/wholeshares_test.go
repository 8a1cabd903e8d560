package proof

import (
	"math"
	"testing"
	"time"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/test/proof/promise"
)

func wholeShare(r *rules.Rule) { r.LocalShare = rules.WholeShare }

// A client whose requests all come to one replica gets its whole limit in an outage, and not more.
func TestFailover_WholeSharesAdmitTheLimitToAClientOfOneReplica(t *testing.T) {
	for _, algorithm := range limiter.Algorithms() {
		t.Run(string(algorithm), func(t *testing.T) {
			lowest, worst := 1.0, int64(0)
			rounds(t, func(number int) {
				for i := range outagesPerAlgorithm {
					seed := uint64(number*outagesPerAlgorithm + i)
					run := newOutageRun(t, algorithm, false, seed, wholeShare)
					share, over := run.wholeShares(t, [engines]float64{1, 0, 0}, [engines]float64{1, 0, 0}), run.unitsOver()
					if bound := run.termsOfAlgorithm(); over > bound {
						t.Errorf("outage %d, %v: %d units above the limit, want at most %d", seed, run.limit, over, bound)
					}
					if share < 0.97 {
						t.Errorf("outage %d, %v: %.0f %% of the limit was admitted, want at least 97 %%", seed, run.limit, 100*share)
					}
					lowest, worst = min(lowest, share), max(worst, over)
				}
			})
			t.Logf("at most %d units above the limit; at least %.0f %% of the limit was admitted", worst, 100*lowest)
		})
	}
}

// A client that uses all replicas in an outage gets the limit from each, and not more: the documented bound of whole shares.
func TestFailover_WholeSharesAdmitTheLimitOnEachReplica(t *testing.T) {
	for _, algorithm := range limiter.Algorithms() {
		t.Run(string(algorithm), func(t *testing.T) {
			rounds(t, func(number int) {
				for i := range outagesPerAlgorithm {
					seed := uint64(number*outagesPerAlgorithm + i)
					run := newOutageRun(t, algorithm, false, seed, wholeShare)
					share := run.wholeShares(t, [engines]float64{1, 0, 0}, [engines]float64{1. / 3, 1. / 3, 1. / 3})
					if share < 0.9*engines {
						t.Errorf("outage %d, %v: %.0f %% of the limit was admitted, want about %d", seed, run.limit, 100*share, 100*engines)
					}
					run.checkWholeShares(t, seed)
				}
			})
		})
	}
}

// checkWholeShares checks what each replica admitted until the end of the outage, and what all of them admitted in the whole history.
func (run *outageRun) checkWholeShares(t *testing.T, seed uint64) {
	t.Helper()
	for at := range run.replicas {
		var alone promise.Log
		for i, r := range run.log {
			if run.decidedBy[i] == at && r.From <= run.ended.UnixMicro() {
				alone = append(alone, r)
			}
		}
		if err := promiseWith(run.limit, run.termsOfAlgorithm()).CheckAdmitted(alone); err != nil {
			t.Errorf("outage %d, %v: replica %d: %v", seed, run.limit, at, err)
		}
	}
	limit, err := limiter.NewLimit(run.limit.Algorithm(), engines*run.limit.Units(), run.limit.Window())
	if err == nil && limit.Traits().Drains {
		limit, err = limit.WithBurst(engines * run.limit.Capacity())
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := promiseWith(limit, engines*run.termsOfAlgorithm()).CheckAdmitted(run.log); err != nil {
		t.Errorf("outage %d, %v: all replicas: %v", seed, run.limit, err)
	}
}

// termsOfAlgorithm is the bound of docs/concepts/local-mode.md without the terms of several replicas.
func (run *outageRun) termsOfAlgorithm() int64 {
	switch units := run.limit.Units(); run.limit.Algorithm() {
	case limiter.SlidingWindowLog:
		return (units + 63) / 64
	case limiter.TokenBucket, limiter.LeakyBucket:
		return int64(math.Ceil(longestStagger.Seconds() / run.limit.Window().Seconds() * float64(units)))
	default:
		return 0
	}
}

// wholeShares plays an outage of two to four windows with the weights of replicas before and during it, at a rate of several times the limit on each
// replica. It returns the part of the limit that was admitted during the outage.
func (run *outageRun) wholeShares(t *testing.T, before, during [engines]float64) float64 {
	t.Helper()
	window := run.limit.Window()
	rate := float64(run.limit.Units()) / window.Seconds() * (3 + 3*run.Float64()) * engines
	run.play(t, run.now.Add(time.Duration((1+run.Float64())*float64(window))), rate, before, nil)
	began := run.now
	for _, r := range run.replicas {
		r.unavailable = true
	}
	run.play(t, run.now.Add(time.Duration((2+2*run.Float64())*float64(window))), rate, during, nil)
	run.ended = run.now
	due := map[time.Time]func(){}
	for _, r := range run.replicas {
		due[run.now.Add(time.Duration(run.Int64N(int64(longestStagger))))] = func() {
			if err := r.failover.Recovering(t.Context(), run.now.Sub(began)); err != nil {
				t.Error(err)
			}
			r.unavailable = false
		}
	}
	run.play(t, run.now.Add(2*window+longestStagger), rate, before, due)
	return run.shareOf(began, run.ended)
}
