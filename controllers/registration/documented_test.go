package registration

import (
	"testing"
	"time"

	"github.com/weir-dev/weir/test/documented"
)

func TestDurations_AreTheDocumentedOnes(t *testing.T) {
	documented.Equal(t, "unreadyGracePeriod", unreadyGracePeriod, "reference/limiter.md", "(\\d+ s) after its last ready pod")
	documented.Equal(t, "unreadyGracePeriod", unreadyGracePeriod, "concepts/kubernetes-throttling.md", "has had no ready pod for (\\d+ s)")
	documented.Equal(t, "timeoutSeconds", timeoutSeconds*time.Second, "concepts/kubernetes-throttling.md", "after (two seconds) at most")
	documented.Equal(t, "timeoutSeconds", timeoutSeconds*time.Second, "reference/limiter.md", "API servers wait for (two seconds)")
}
