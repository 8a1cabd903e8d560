package reliability

import (
	"testing"
	"time"

	"github.com/weir-dev/weir/limiter"
)

// at returns the spans of units that were admitted at known instants, in milliseconds.
func at(milliseconds ...int64) []span {
	spans := make([]span, len(milliseconds))
	for i, ms := range milliseconds {
		spans[i] = span{ms * 1000, ms * 1000}
	}
	return spans
}

func TestOver_CountsUnitsBeyondTheLimit(t *testing.T) {
	fixed := Policy{Algorithm: limiter.FixedWindow, Limit: 2, Window: time.Second}
	log := Policy{Algorithm: limiter.SlidingWindowLog, Limit: 2, Window: time.Second}
	counter := Policy{Algorithm: limiter.SlidingWindowCounter, Limit: 4, Window: time.Second}
	bucket := Policy{Algorithm: limiter.TokenBucket, Limit: 2, Window: time.Second, Burst: 2}
	tests := map[string]struct {
		policy   Policy
		admitted []span
		want     int64
	}{
		"no units": {fixed, nil, 0},
		"a fixed window may be full on both sides of a boundary":  {fixed, at(998, 999, 1000, 1001), 0},
		"a fixed window with two units too many":                  {fixed, at(1000, 1200, 1400, 1600), 2},
		"the largest excess counts, not the sum":                  {fixed, at(0, 1, 2, 1000, 1001, 1002, 1003), 2},
		"a unit whose window is unknown does not count":           {fixed, append(at(0, 1), span{999_000, 1_000_000}), 0},
		"a sliding log counts across the boundary":                {log, at(998, 999, 1000, 1001), 2},
		"a unit leaves the sliding log after one window":          {log, at(0, 1, 1000, 1001), 0},
		"a microsecond earlier it still counts":                   {log, append(at(0, 1), span{999_999, 999_999}), 1},
		"a unit that may have been admitted later does not count": {log, append(at(0, 1), span{900_000, 1_000_000}), 0},
		"order does not matter":                                   {log, at(1001, 998, 1000, 999), 2},
		"the previous window of the counter is weighted":          {counter, at(0, 1, 2, 3, 1500, 1501), 0},
		"one more than the weighted count allows":                 {counter, at(0, 1, 2, 3, 1500, 1500, 1500), 1},
		"a bucket admits its burst and what is refilled":          {bucket, at(0, 0, 500, 1000), 0},
		"a bucket that admits before it is refilled":              {bucket, at(0, 0, 400, 1000), 1},
		"a bucket is refilled up to its burst":                    {bucket, at(0, 10_000, 10_000, 10_000), 1},
		"a unit of a bucket that may have been admitted later":    {bucket, append(at(0, 0), span{0, 500_000}), 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := tt.policy.over(tt.admitted); got != tt.want {
				t.Errorf("%d units over, want %d", got, tt.want)
			}
		})
	}
}
