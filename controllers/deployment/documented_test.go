package deployment

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

		{"drainSeconds", drainSeconds * time.Second, "reference/limiter.md", `They still answer for (\w+ seconds)`},
		{"drainSeconds", drainSeconds * time.Second, "how-to/operate-a-limiter.md", `A stopping pod answers for (\w+ seconds) after SIGTERM`},
		{"drainSeconds", drainSeconds * time.Second, "reference/http.md", `the pods of a Limiter have (\d+ s)`},
		{"blockedRetry", blockedRetry, "how-to/operate-a-limiter.md", `checks every (\w+ seconds), and running pods remain`},
		{"maxRedisTimeout", maxRedisTimeout, "reference/limiter.md", "At most `(\\d+ms)` with `kubernetesThrottle`"},
	} {
		if want := documented.Duration(t, test.page, test.pattern); test.got != want {
			t.Errorf("%s is %v, docs/%s promises %v", test.name, test.got, test.page, want)
		}
	}
}
