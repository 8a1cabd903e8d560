package deployment

import (
	"testing"

	"github.com/weir-dev/weir/test/documented"
)

func TestDurations_AreTheDocumentedOnes(t *testing.T) {
	documented.Equal(t, "defaultDrain", defaultDrain, "reference/limiter.md", `They still answer for (\w+ seconds)`)
	documented.Equal(t, "defaultDrain", defaultDrain, "how-to/operate-a-limiter.md", `A stopping pod answers for (\w+ seconds) after SIGTERM`)
	documented.Equal(t, "defaultDrain", defaultDrain, "reference/http.md", `the pods of a Limiter have (\d+ s)`)
	documented.Equal(t, "blockedRetry", blockedRetry, "how-to/operate-a-limiter.md", `checks every (\w+ seconds), and running pods remain`)
	documented.Equal(t, "maxRedisTimeout", maxRedisTimeout, "reference/limiter.md", "At most `(\\d+ms)` with `kubernetesThrottle`")
}
