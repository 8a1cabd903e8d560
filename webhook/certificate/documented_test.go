package certificate

import (
	"testing"

	"github.com/weir-dev/weir/test/documented"
)

func TestDurations_AreTheDocumentedOnes(t *testing.T) {
	documented.Equal(t, "SettleTime", DefaultRotation("weir").SettleTime, "reference/webhook.md", `has had it in the bundle for (\w+ minutes)`)
}
