package throttle

import (
	"testing"

	"github.com/weir-dev/weir/test/documented"
)

func TestDurations_AreTheDocumentedOnes(t *testing.T) {
	documented.Equal(t, "MaxStoreTimeout", MaxStoreTimeout, "reference/limiter.md", "At most `(\\d+ms)` with `kubernetesThrottle`")
}
