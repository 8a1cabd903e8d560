package gatewayapi

import (
	"testing"

	"github.com/weir-dev/weir/test/documented"
)

func TestDurations_AreTheDocumentedOnes(t *testing.T) {
	documented.Equal(t, "Interval", Interval, "how-to/limit-a-route.md", `The operator notices within (\w+ seconds), without a restart`)
}
