package limiter_test

import (
	"strings"
	"testing"
	"time"

	"github.com/weir-dev/weir/limiter"
)

func TestWithBurst_AcceptsBurstsWithinTheBounds(t *testing.T) {
	tests := map[string]struct {
		algorithm limiter.Algorithm
		units     int64
		window    time.Duration
		burst     int64
		want      string // part of the error; empty: accepted
	}{
		"a bucket smaller than the limit":   {limiter.TokenBucket, 100, time.Minute, 1, ""},
		"a bucket larger than the limit":    {limiter.TokenBucket, 1, time.Second, 1000, ""},
		"a bucket that holds nothing":       {limiter.TokenBucket, 1, time.Second, 0, "burst 0 is outside 1 … 1000000000 for TokenBucket"},
		"no queue":                          {limiter.LeakyBucket, 1, time.Second, 0, ""},
		"a queue that is too long":          {limiter.LeakyBucket, limiter.MaxUnits, time.Second, limiter.MaxUnits + 1, "burst 1000000001 is outside 0 … 1000000000"},
		"a negative burst":                  {limiter.LeakyBucket, 1, time.Second, -1, "burst -1 is outside"},
		"a fixed window":                    {limiter.FixedWindow, 1, time.Second, 1, "FixedWindow has no burst"},
		"a bucket that drains in ten years": {limiter.TokenBucket, 1, limiter.MaxWindow, 121, ""},
		"exactly ten years":                 {limiter.TokenBucket, 1, time.Hour, 10 * 365 * 24, ""},
		"the largest burst":                 {limiter.TokenBucket, limiter.MaxUnits, time.Second, limiter.MaxUnits, ""},
		"the longest queue":                 {limiter.LeakyBucket, limiter.MaxUnits, time.Second, limiter.MaxUnits, ""},
		"a bucket that takes longer":        {limiter.TokenBucket, 1, limiter.MaxWindow, 122, "burst 122 takes longer than ten years to drain at 1 per 720h0m0s"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			limit, err := mustLimit(t, test.algorithm, test.units, test.window).WithBurst(test.burst)
			if test.want != "" {
				if err == nil || !strings.Contains(err.Error(), test.want) {
					t.Fatalf("error %v, want it to contain %q", err, test.want)
				}
				return
			}
			if err != nil || limit.Burst() != test.burst {
				t.Errorf("got %v with burst %d, %v", limit, limit.Burst(), err)
			}
		})
	}
	if got := mustLimit(t, limiter.TokenBucket, 100, time.Minute).Burst(); got != 100 {
		t.Errorf("the default burst of a token bucket is %d, want its limit of 100", got)
	}
}

func TestNewLimit_RejectsValuesOutsideTheBounds(t *testing.T) {
	tests := map[string]struct {
		algorithm limiter.Algorithm
		units     int64
		window    time.Duration
		want      string // part of the error; empty: accepted
	}{
		"the smallest":                 {limiter.SlidingWindowLog, 1, time.Second, ""},
		"the largest counter":          {limiter.SlidingWindowCounter, limiter.MaxUnits, limiter.MaxWindow, ""},
		"the largest log":              {limiter.SlidingWindowLog, limiter.MaxLogUnits, limiter.MaxWindow, ""},
		"an unknown algorithm":         {"Leaky", 1, time.Second, `unknown algorithm "Leaky"`},
		"no algorithm":                 {"", 1, time.Second, `unknown algorithm ""`},
		"a limit of 0":                 {limiter.LeakyBucket, 0, time.Second, ""},
		"less than nothing":            {limiter.SlidingWindowCounter, -1, time.Second, "limit -1 is outside 0 … 1000000000"},
		"too many units for a counter": {limiter.SlidingWindowCounter, limiter.MaxUnits + 1, time.Second, "limit 1000000001 is outside"},
		"too many units for a log":     {limiter.SlidingWindowLog, limiter.MaxLogUnits + 1, time.Second, "limit 1000001 is outside 0 … 1000000 for SlidingWindowLog"},
		"a window too short":           {limiter.SlidingWindowLog, 1, time.Second - 1, "window 999.999999ms is not"},
		"a window too long":            {limiter.SlidingWindowLog, 1, limiter.MaxWindow + time.Second, "window 720h0m1s is not"},
		"the longest fixed window":     {limiter.FixedWindow, limiter.MaxUnits, 365 * 24 * time.Hour, ""},
		"a fixed window too long":      {limiter.FixedWindow, 1, 365*24*time.Hour + time.Second, "window 8760h0m1s is not a whole number of seconds within 1s … 8760h0m0s"},
		"a window of 1.5 seconds":      {limiter.SlidingWindowLog, 1, 1500 * time.Millisecond, "not a whole number of seconds"},
		"a negative window":            {limiter.SlidingWindowLog, 1, -time.Second, "window -1s is not"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			limit, err := limiter.NewLimit(test.algorithm, test.units, test.window)
			if test.want != "" {
				if err == nil || !strings.Contains(err.Error(), test.want) {
					t.Fatalf("error %v, want it to contain %q", err, test.want)
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

func TestNoDelay_AppliesToLeakyBucketsOnly(t *testing.T) {
	for _, algorithm := range limiter.Algorithms() {
		limit := mustLimit(t, algorithm, 100, time.Minute)
		changed := limit.NoDelay()
		_, before := limit.MaxDelay()
		most, after := changed.MaxDelay()
		if before || after != (algorithm == limiter.LeakyBucket) || most != 0 {
			t.Errorf("%s: bounded %v before, and %v by %v after", algorithm, before, after, most)
		}
		if algorithm != limiter.LeakyBucket && changed != limit {
			t.Errorf("%s: %v became %v", algorithm, limit, changed)
		}
	}
}

func TestWithMaxDelay_BoundsOnlyDelaysThatCanBeLonger(t *testing.T) {
	queue, err := mustLimit(t, limiter.LeakyBucket, 60, time.Minute).WithBurst(9) // the last of the queue waits 9 s
	if err != nil {
		t.Fatal(err)
	}
	long, err := mustLimit(t, limiter.LeakyBucket, 1, time.Hour).WithBurst(1_000)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		limit   limiter.Limit
		d, want time.Duration
		bounded bool
	}{
		{queue, 5 * time.Second, 5 * time.Second, true},
		{queue, 5*time.Second + 999*time.Microsecond, 5 * time.Second, true},
		{queue, time.Nanosecond, 0, true},
		{queue, -time.Second, 0, true},
		{queue, 9 * time.Second, 9 * time.Second, true},
		{queue, 9*time.Second + 2*time.Millisecond, 0, false},
		{long, 30 * time.Minute, 30 * time.Minute, true},
		{long, 30*time.Minute + 1, 0, false},
		{mustLimit(t, limiter.LeakyBucket, 60, time.Minute), time.Second, 0, false}, // without a queue
		{mustLimit(t, limiter.TokenBucket, 60, time.Minute), time.Nanosecond, 0, false},
	} {
		most, bounded := test.limit.WithMaxDelay(test.d).MaxDelay()
		if most != test.want || bounded != test.bounded {
			t.Errorf("%v with at most %v: %v, bounded %v, want %v, %v", test.limit, test.d, most, bounded, test.want, test.bounded)
		}
	}
}

// A caller that cannot wait is denied until the queue is empty.
func TestNoDelay_DeniesWhatWouldHaveToWait(t *testing.T) {
	queue, err := mustLimit(t, limiter.LeakyBucket, 60, time.Minute).WithBurst(9)
	if err != nil {
		t.Fatal(err)
	}
	state := queue.NewState()
	state.Spend(noon, queue, 3)
	for _, test := range []struct {
		after         time.Duration
		cost          int64
		allowed       bool
		retry, delays time.Duration // delays: with a delay
	}{
		{0, 0, true, 0, 0},
		{0, 1, false, 3 * time.Second, 3 * time.Second},
		{time.Second, 1, false, 2 * time.Second, 2 * time.Second},
		{3 * time.Second, 1, true, 0, 0},
		{3 * time.Second, 11, false, limiter.Never, 0},
	} {
		d := state.Decide(noon.Add(test.after), queue.NoDelay(), test.cost)
		if d.Allowed != test.allowed || d.RetryAfter != test.retry || d.Delay != 0 {
			t.Errorf("cost %d after %v: %+v", test.cost, test.after, d)
		}
		if delayed := state.Decide(noon.Add(test.after), queue, test.cost); delayed.Delay != test.delays {
			t.Errorf("cost %d after %v: delay %v, want %v", test.cost, test.after, delayed.Delay, test.delays)
		}
	}
}

func TestUnits_AreBoundedSoThatNoSumOverflows(t *testing.T) {
	for cost, want := range map[int64]int64{-1 << 63: 0, -1: 0, 0: 0, 1: 1, limiter.MaxUnits: limiter.MaxUnits, limiter.MaxUnits + 1: limiter.MaxUnits + 1} {
		charge, refund := limiter.Charge{Cost: cost}, limiter.Refund{Cost: cost}
		if charge.Units() != want || refund.Units() != want {
			t.Errorf("cost %d: %d units of a charge and %d of a refund, want %d", cost, charge.Units(), refund.Units(), want)
		}
	}
	huge := limiter.Charge{Cost: 1<<63 - 1}
	if units := huge.Units(); units <= limiter.MaxUnits || units > 1<<32 {
		t.Errorf("%d units, want slightly more than any limit", units)
	}
}

func TestLimit_StringDescribesIt(t *testing.T) {
	if got, want := mustLimit(t, limiter.SlidingWindowLog, 100, time.Minute).String(), "100 per 1m0s (SlidingWindowLog)"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
