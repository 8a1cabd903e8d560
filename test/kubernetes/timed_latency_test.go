package kubernetes

import (
	"testing"
	"time"

	"github.com/weir-dev/weir/test/latency"
)

// The bounds are generous because of other load on the machine. The command hack/latency has the targets.
func TestMeasureLatency_ALimiterAddsLittle(t *testing.T) {
	latency.Alone(t)
	l, err := MeasureLatency(t.Context(), newWorld(t), 150)
	must(t, err)
	for percent, most := range map[float64]time.Duration{50: 5 * time.Millisecond, 99: 50 * time.Millisecond} {
		added, call := l.Added(percent)
		t.Logf("p%v: with a limiter %v, without %v; added %v, %v of it by the call itself",
			percent, Percentile(l.Limited, percent), Percentile(l.Baseline, percent), added, call)
		if added > most {
			t.Errorf("p%v: a limiter adds %v, more than %v", percent, added, most)
		}
	}
}

func TestPercentile_IsTheSlowestOfTheFastestShare(t *testing.T) {
	sorted := make([]time.Duration, 200)
	for i := range sorted {
		sorted[i] = time.Duration(i + 1)
	}
	for percent, want := range map[float64]time.Duration{0: 1, 50: 101, 99: 199, 100: 200} {
		if got := Percentile(sorted, percent); got != want {
			t.Errorf("p%v is %d, want %d", percent, got, want)
		}
	}
}
