package kubernetes

import (
	"fmt"
	"testing"
	"time"

	"github.com/weir-dev/weir/test/latency"
)

// The bounds are generous because of other load on the machine. BenchmarkWrites measures more writes.
func TestMeasureLatency_ALimiterAddsLittle(t *testing.T) {
	slow := latency.Of(t)
	latency.Alone(t)
	l, err := MeasureLatency(t.Context(), newWorld(t), 150)
	must(t, err)
	for percent, most := range map[float64]time.Duration{50: 5 * time.Millisecond, 99: 50 * time.Millisecond} {
		added, call := l.Added(percent)
		t.Logf("p%v: with a limiter %v, without %v; added %v, %v of it by the call itself",
			percent, Percentile(l.Limited, percent), Percentile(l.Baseline, percent), added, call)
		if added > most {
			slow.Errorf("p%v: a limiter adds %v, more than %v", percent, added, most)
		}
	}
}

// BenchmarkWrites reports what a limiter adds to a write to the Kubernetes API, and how much of it is the call itself:
//
//	go test ./test/kubernetes -run '^$' -bench Writes -benchtime 3000x
//
// The targets for the added time are 1.5 ms at the median and 10 ms at the 99th percentile.
func BenchmarkWrites(b *testing.B) {
	w := newWorld(b)
	b.ResetTimer()
	l, err := MeasureLatency(b.Context(), w, b.N)
	must(b, err)
	for _, percent := range []float64{50, 99} {
		added, call := l.Added(percent)
		b.ReportMetric(milliseconds(added), fmt.Sprintf("p%v-added-ms", percent))
		b.ReportMetric(milliseconds(call), fmt.Sprintf("p%v-call-ms", percent))
		b.ReportMetric(milliseconds(Percentile(l.Limited, percent)), fmt.Sprintf("p%v-limited-ms", percent))
		b.ReportMetric(milliseconds(Percentile(l.Baseline, percent)), fmt.Sprintf("p%v-baseline-ms", percent))
	}
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

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
