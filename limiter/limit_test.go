package limiter_test

import (
	"strings"
	"testing"
	"time"

	"github.com/weir-dev/weir/limiter"
)

func TestNewLimitRefusesWhatCannotBeCounted(t *testing.T) {
	tests := map[string]struct {
		algorithm limiter.Algorithm
		units     int64
		window    time.Duration
		want      string // part of the error; empty: accepted
	}{
		"the smallest":                           {limiter.SlidingWindowLog, 1, time.Second, ""},
		"the largest counter":                    {limiter.SlidingWindowCounter, limiter.MaxUnits, limiter.MaxWindow, ""},
		"the largest log":                        {limiter.SlidingWindowLog, limiter.MaxLogUnits, limiter.MaxWindow, ""},
		"an algorithm nobody knows":              {"Leaky", 1, time.Second, `unknown algorithm "Leaky"`},
		"no algorithm":                           {"", 1, time.Second, `unknown algorithm ""`},
		"a limit of nothing":                     {limiter.SlidingWindowCounter, 0, time.Second, "limit 0 is outside 1 … 1000000000"},
		"more than a counter counts":             {limiter.SlidingWindowCounter, limiter.MaxUnits + 1, time.Second, "limit 1000000001 is outside"},
		"more than a log should hold":            {limiter.SlidingWindowLog, limiter.MaxLogUnits + 1, time.Second, "limit 1000001 is outside 1 … 1000000 for SlidingWindowLog"},
		"a window too short":                     {limiter.SlidingWindowLog, 1, time.Second - 1, "window 999.999999ms is not"},
		"a window too long":                      {limiter.SlidingWindowLog, 1, limiter.MaxWindow + time.Second, "window 720h0m1s is not"},
		"a window of a second and a bit":         {limiter.SlidingWindowLog, 1, 1500 * time.Millisecond, "not a whole number of seconds"},
		"a window that ends before it has begun": {limiter.SlidingWindowLog, 1, -time.Second, "window -1s is not"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			limit, err := limiter.NewLimit(test.algorithm, test.units, test.window)
			if test.want != "" {
				if err == nil || !strings.Contains(err.Error(), test.want) {
					t.Fatalf("error %v, want one that says %q", err, test.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if limit.Algorithm() != test.algorithm || limit.Units() != test.units || limit.Window() != test.window {
				t.Errorf("got %v", limit)
			}
		})
	}
}
