package limiter_test

import (
	"testing"
	"time"

	"github.com/weir-dev/weir/limiter"
)

// docs/reference/api.md states them.
func TestLeaseBounds_AreTheDocumentedOnes(t *testing.T) {
	if limiter.MaxLeasePercent != 50 || limiter.MinLeaseAge != 100*time.Millisecond || limiter.MaxLeaseAge != 10*time.Second {
		t.Errorf("leases of up to %d percent for %v to %v, want 50 percent and 100 ms to 10 s",
			limiter.MaxLeasePercent, limiter.MinLeaseAge, limiter.MaxLeaseAge)
	}
}
