package admin

import (
	"testing"
	"time"
)

// A Top begins at most two periods ago, and the period that ends now can have been sampled already.
func TestTotals_KeepTheLastThreeSamples(t *testing.T) {
	var totals Totals
	for i := range int64(10) {
		totals.keep(sample{takenAt: time.Unix(i, 0)})
		if n := int64(len(totals.samples)); n != min(i+1, 3) || totals.samples[0].takenAt.Unix() != max(0, i-2) {
			t.Errorf("after %d samples: %d, the first at %v", i+1, n, totals.samples[0].takenAt)
		}
	}
}
