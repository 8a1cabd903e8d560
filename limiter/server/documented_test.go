package server

import (
	"testing"

	"github.com/weir-dev/weir/test/documented"
)

func TestDurations_AreTheDocumentedOnes(t *testing.T) {
	documented.Equal(t, "defaultMaxDelay", defaultMaxDelay, "reference/http.md", `would have to wait for longer than (\d+ s) is denied`)
}
