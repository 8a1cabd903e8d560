package overload

import (
	"math"
	"runtime/metrics"
	"slices"
	"time"
)

// schedulingMetric is the distribution of the times that goroutines have waited for a processor.
const schedulingMetric = "/sched/latencies:seconds"

// SchedulingDelay returns a function that returns how long goroutines have waited for a processor since its last call: the
// median, or 0 without a measurement. This is the time for which requests wait because of this process, whatever Redis does. The
// runtime measures it for one of eight goroutines.
func SchedulingDelay() func() time.Duration {
	sample := []metrics.Sample{{Name: schedulingMetric}}
	var previous []uint64
	return func() time.Duration {
		metrics.Read(sample)
		if sample[0].Value.Kind() != metrics.KindFloat64Histogram {
			return 0 // a version of Go without the metric
		}
		histogram := sample[0].Value.Float64Histogram()
		since := slices.Clone(histogram.Counts)
		for i := range previous {
			since[i] -= previous[i]
		}
		previous = append(previous[:0], histogram.Counts...)
		return median(since, histogram.Buckets)
	}
}

// median returns the lower end of the bucket that contains the median, for counts of buckets[i] to buckets[i+1] in seconds.
func median(counts []uint64, buckets []float64) time.Duration {
	var total, seen uint64
	for _, n := range counts {
		total += n
	}
	if total == 0 {
		return 0
	}
	for i, n := range counts {
		if seen += n; 2*seen >= total && !math.IsInf(buckets[i], 0) {
			return time.Duration(buckets[i] * float64(time.Second))
		}
	}
	return 0
}
