package aws

import (
	"testing"

	"github.com/weir-dev/weir/test/documented"
)

func TestDurations_AreTheDocumentedOnes(t *testing.T) {
	documented.Equal(t, "tokenLife", tokenLife, "reference/redis.md", `a signed request \(SigV4\) \| (\d+ minutes)`)
	documented.Equal(t, "connections", connectionLife-connectionMargin, "reference/redis.md", `after (\d+ hours): the service closes them`)
}
