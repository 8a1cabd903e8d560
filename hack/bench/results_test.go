package main

import (
	"math"
	"testing"
	"time"

	"github.com/weir-dev/weir/hack/bench/report"
)

func TestRatio_ComparesTheSameRound(t *testing.T) {
	// The machine was twice as fast in the second round, and half as fast in the third: the ratio of Weir is always 3.
	samples := func(perSecond ...int64) (samples []sample) {
		for _, n := range perSecond {
			samples = append(samples, sample{decisions: n, elapsed: time.Second})
		}
		return samples
	}
	r := results{64: {"weir": samples(300, 600, 150), "other": samples(100, 200, 50), "short": samples(150)}}
	if got := r.ratio(64, "weir", "other", throughput); got != 3 {
		t.Errorf("ratio %v, want 3", got)
	}
	if got := r.ratio(64, "weir", "short", throughput); got != 2 {
		t.Errorf("ratio with only one common round: %v, want 2", got)
	}
	for _, missing := range []float64{
		r.ratio(64, "weir", "missing", throughput), r.ratio(1, "weir", "other", throughput), r.median(1, "weir", throughput),
		results(nil).median(1, "weir", throughput),
	} {
		if !math.IsNaN(missing) {
			t.Errorf("got %v for a missing figure, want NaN", missing)
		}
	}
}

func TestMedianRatio_IsTheMedianOfTheRatios(t *testing.T) {
	if got := report.MedianRatio([]float64{10, 40, 30}, []float64{10, 10, 30}); got != 1 {
		t.Errorf("median of the ratios 1, 4, 1: %v", got)
	}
}

func TestSample_ReturnsItsFigures(t *testing.T) {
	s := sample{
		decisions: 500_000, denied: 5_000, elapsed: 2 * time.Second, latency: 1500 * time.Nanosecond,
		used: usage{client: time.Second, server: 3 * time.Second},
	}
	for name, figure := range map[string]struct{ got, want float64 }{
		"decisions per second":       {throughput(s), 250_000},
		"µs per call":                {latency(s), 1.5},
		"client seconds per million": {clientCPU(s), 2},
		"server seconds per million": {serverCPU(s), 6},
		"share of denials":           {denied(s), 0.01},
	} {
		if figure.got != figure.want {
			t.Errorf("%s: %v, want %v", name, figure.got, figure.want)
		}
	}
}

func TestDenials_ReportsMoreThanOnePercent(t *testing.T) {
	r := results{
		64: {"weir": {{decisions: 100, denied: 25}}, "other": {{decisions: 1000, denied: 1}}},
		1:  {"weir": {{decisions: 100, denied: 50}}},
	}
	const want = "With 1 callers weir denied 50 % of its requests.\nWith 64 callers weir denied 25 % of its requests.\n"
	if got := r.denials(); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
