package certificate

import (
	"testing"
	"time"

	"github.com/weir-dev/weir/test/documented"
)

func TestDurations_AreTheDocumentedOnes(t *testing.T) {
	for _, test := range []struct {
		name          string
		got           time.Duration
		page, pattern string
	}{

		{"SettleTime", DefaultRotation("weir").SettleTime, "reference/webhook.md", `has had it in the bundle for (\w+ minutes) without interruption`},
	} {
		if want := documented.Duration(t, test.page, test.pattern); test.got != want {
			t.Errorf("%s is %v, docs/%s promises %v", test.name, test.got, test.page, want)
		}
	}
}
