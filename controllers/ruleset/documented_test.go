package ruleset

import (
	"testing"

	"github.com/weir-dev/weir/test/documented"
)

func TestDurations_AreTheDocumentedOnes(t *testing.T) {
	documented.Equal(t, "maxUnavailableWait", maxUnavailableWait, "reference/limiter.md", `whether it reaches Redis or not, and restores it within (\w+ seconds)`)
	documented.Equal(t, "clearTimeout", clearTimeout, "reference/limiter.md", `removes the rules from Redis, for at most (half a minute)`)
}
