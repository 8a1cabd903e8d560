package failover

import (
	"testing"

	"github.com/weir-dev/weir/test/documented"
)

func TestDurations_AreTheDocumentedOnes(t *testing.T) {
	documented.Equal(t, "recoveryWindow", recoveryWindow, "concepts/local-mode.md", `For twice the length of the outage, at most (half a second),`)
}
