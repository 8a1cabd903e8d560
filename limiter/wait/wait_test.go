package wait_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-dev/weir/limiter/wait"
)

func TestSleep_EndsWithTheTimeOrTheContext(t *testing.T) {
	for name, test := range map[string]struct {
		timeout, sleep, took time.Duration
		want                 bool
	}{
		"the time":                   {time.Minute, time.Second, time.Second, true},
		"the context":                {time.Second, time.Minute, time.Second, false},
		"no time":                    {time.Second, 0, 0, true},
		"no time, after the context": {0, 0, 0, false},
		"a time, after the context":  {0, time.Second, 0, false},
		"a time in the past":         {time.Second, -time.Second, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), test.timeout)
				defer cancel()
				began := time.Now()
				if got := wait.Sleep(ctx, test.sleep); got != test.want || time.Since(began) != test.took {
					t.Errorf("%t after %v, want %t after %v", got, time.Since(began), test.want, test.took)
				}
			})
		})
	}
}

func TestJittered_IsHalfToThreeHalves(t *testing.T) {
	shortest, longest := time.Hour, time.Duration(0)
	for range 10_000 {
		d := wait.Jittered(100 * time.Millisecond)
		shortest, longest = min(shortest, d), max(longest, d)
	}
	if shortest < 50*time.Millisecond || shortest > 55*time.Millisecond || longest > 150*time.Millisecond || longest < 145*time.Millisecond {
		t.Errorf("%v to %v, want 50 ms to 150 ms", shortest, longest)
	}
}
