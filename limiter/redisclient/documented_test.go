package redisclient

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

		{"MinDialTimeout", MinDialTimeout, "how-to/run-on-redis.md", `twice as long as a command, and at least (\d+ ms)`},
	} {
		if want := documented.Duration(t, test.page, test.pattern); test.got != want {
			t.Errorf("%s is %v, docs/%s promises %v", test.name, test.got, test.page, want)
		}
	}
}
