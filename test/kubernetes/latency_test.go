package kubernetes

import (
	"testing"
	"time"
)

// TestALimiterAddsLittleToARequest is generous, for the machine has other things to do: hack/latency has the bars.
func TestALimiterAddsLittleToARequest(t *testing.T) {
	l, err := MeasureLatency(t.Context(), world(t), 300)
	must(t, err)
	t.Logf("with a limiter asked p50 %v, p99 %v; without p50 %v, p99 %v; added p50 %v, p99 %v",
		Percentile(l.With, 50), Percentile(l.With, 99), Percentile(l.Without, 50), Percentile(l.Without, 99), l.Added(50), l.Added(99))
	if l.Added(50) > 10*time.Millisecond || l.Added(99) > 200*time.Millisecond {
		t.Errorf("a limiter adds %v, and %v at the 99th percentile", l.Added(50), l.Added(99))
	}
}

func TestPercentilesAreOfTheFastest(t *testing.T) {
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
