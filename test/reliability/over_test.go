package reliability

import (
	"testing"
	"time"

	"github.com/weir-dev/weir/limiter"
)

// at are units that were admitted at known instants, in milliseconds.
func at(milliseconds ...int64) []span {
	spans := make([]span, len(milliseconds))
	for i, ms := range milliseconds {
		spans[i] = span{ms * 1000, ms * 1000}
	}
	return spans
}

func TestOverIsWhatWasAdmittedBeyondThePromise(t *testing.T) {
	fixed := Policy{Algorithm: limiter.FixedWindow, Limit: 2, Window: time.Second}
	log := Policy{Algorithm: limiter.SlidingWindowLog, Limit: 2, Window: time.Second}
	counter := Policy{Algorithm: limiter.SlidingWindowCounter, Limit: 4, Window: time.Second}
	bucket := Policy{Algorithm: limiter.TokenBucket, Limit: 2, Window: time.Second, Burst: 2}
	tests := map[string]struct {
		policy   Policy
		admitted []span
		want     int64
	}{
		"nothing admitted is nothing over":                        {fixed, nil, 0},
		"a fixed window may be full on both sides of its border":  {fixed, at(998, 999, 1000, 1001), 0},
		"a fixed window with two units too many":                  {fixed, at(1000, 1200, 1400, 1600), 2},
		"the worst window counts, not the sum":                    {fixed, at(0, 1, 2, 1000, 1001, 1002, 1003), 2},
		"a unit of one of two windows is of neither":              {fixed, append(at(0, 1), span{999_000, 1_000_000}), 0},
		"a sliding log counts across that border":                 {log, at(998, 999, 1000, 1001), 2},
		"a unit leaves the sliding log after one window":          {log, at(0, 1, 1000, 1001), 0},
		"a microsecond before it is still there":                  {log, append(at(0, 1), span{999_999, 999_999}), 1},
		"a unit that may have come later is not held against it":  {log, append(at(0, 1), span{900_000, 1_000_000}), 0},
		"order does not matter":                                   {log, at(1001, 998, 1000, 999), 2},
		"the counter's last window weighs by what is left of it":  {counter, at(0, 1, 2, 3, 1500, 1501), 0},
		"one more than that weight leaves room for":               {counter, at(0, 1, 2, 3, 1500, 1500, 1500), 1},
		"a bucket gives its burst and what is refilled meanwhile": {bucket, at(0, 0, 500, 1000), 0},
		"a bucket that gave before it was refilled":               {bucket, at(0, 0, 400, 1000), 1},
		"refilled until its burst and not beyond":                 {bucket, at(0, 10_000, 10_000, 10_000), 1},
		"a unit of a bucket that may have come later":             {bucket, append(at(0, 0), span{0, 500_000}), 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := tt.policy.over(tt.admitted); got != tt.want {
				t.Errorf("%d units over, want %d", got, tt.want)
			}
		})
	}
}
