package identity

import (
	"testing"

	"github.com/weir-dev/weir/test/documented"
)

func TestDurations_AreTheDocumentedOnes(t *testing.T) {
	documented.Equal(t, "maxRetry", maxRetry, "reference/redis.md", `more often after an error: every (\d+ seconds) at the most`)
	documented.Equal(t, "firstWait", firstWait, "reference/redis.md", `which waits for at most (1 s)`)
}
