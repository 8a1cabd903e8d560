package throttle

import (
	"strings"
	"testing"
	"time"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/matching"
)

func TestDenial_ExplainsAWaitThatIsLongerThanTheWindow(t *testing.T) {
	for _, c := range []struct {
		algorithm limiter.Algorithm
		wait      time.Duration
		want      string
	}{
		{limiter.SlidingWindowCounter, 16 * time.Minute, "; retry in 16m, because SlidingWindowCounter also counts the previous window"},
		{limiter.SlidingWindowCounter, 10 * time.Minute, "; retry in 10m; "},
		{limiter.TokenBucket, 16 * time.Minute, "; retry in 16m; "},
	} {
		rule := matching.Compiled{Rule: rules.Rule{Policy: "_cluster/a", Algorithm: c.algorithm, Units: 1, WindowSeconds: 600}}
		got := denial(&engine.Answer{Results: []engine.Result{{Rule: &rule, Window: 10 * time.Minute, Decision: limiter.Decision{RetryAfter: c.wait}}}})
		if !strings.Contains(got+"; ", c.want) {
			t.Errorf("%s, %s: %s", c.algorithm, c.wait, got)
		}
	}
}
