package denials

import (
	"testing"

	"github.com/weir-dev/weir/test/documented"
)

func TestDurations_AreTheDocumentedOnes(t *testing.T) {
	documented.Equal(t, "Life", Life, "concepts/known-denials.md", `\| (\d+ s) have passed \|`)
}
