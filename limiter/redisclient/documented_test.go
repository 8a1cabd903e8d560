package redisclient

import (
	"testing"

	"github.com/weir-dev/weir/test/documented"
)

func TestDurations_AreTheDocumentedOnes(t *testing.T) {
	documented.Equal(t, "MinDialTimeout", MinDialTimeout, "how-to/run-on-redis.md", `twice as long as a command, and at least (\d+ ms)`)
}
