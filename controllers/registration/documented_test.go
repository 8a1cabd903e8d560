package registration

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

		{"unreadyGracePeriod", unreadyGracePeriod, "reference/limiter.md", "(\\d+ s) after its last ready pod"},
		{"unreadyGracePeriod", unreadyGracePeriod, "concepts/kubernetes-throttling.md", "has had no ready pod for (\\d+ s)"},
		{"withdrawTimeout", withdrawTimeout, "reference/limiter.md", "waits at most (half a minute) for its webhook to be removed"},
		{"timeoutSeconds", timeoutSeconds * time.Second, "concepts/kubernetes-throttling.md", "after (two seconds) at most"},
		{"timeoutSeconds", timeoutSeconds * time.Second, "reference/limiter.md", "API servers wait for (two seconds)"},
	} {
		if want := documented.Duration(t, test.page, test.pattern); test.got != want {
			t.Errorf("%s is %v, docs/%s promises %v", test.name, test.got, test.page, want)
		}
	}
}
