package limiter_test

import (
	"testing"
	"time"

	"github.com/weir-dev/weir/limiter"
)

func TestTokenBucket_WaitAfterTheBurstWasLoweredIsExact(t *testing.T) {
	wide, err := mustLimit(t, limiter.TokenBucket, 10, 10*time.Second).WithBurst(100)
	if err != nil {
		t.Fatal(err)
	}
	narrow, err := wide.WithBurst(10)
	if err != nil {
		t.Fatal(err)
	}
	began := limiter.At(time.Unix(1_800_000_000, 0))
	state := wide.NewState()
	state.Spend(began, wide, 100)
	for _, cost := range []int64{1, 4, 10} {
		now := began.Add(300 * time.Millisecond)
		d := state.Decide(now, narrow, cost)
		if d.Allowed || d.RetryAfter > 10*time.Second {
			t.Fatalf("cost %d: %+v, want a denial for at most the time that a burst of 10 takes to drain", cost, d)
		}
		if early := state.Decide(now.Add(d.RetryAfter-time.Microsecond), narrow, cost); early.Allowed {
			t.Errorf("cost %d is allowed a microsecond before %v have passed", cost, d.RetryAfter)
		}
		if then := state.Decide(now.Add(d.RetryAfter), narrow, cost); !then.Allowed {
			t.Errorf("cost %d is denied after %v: %+v", cost, d.RetryAfter, then)
		}
	}
}

// A level between two units counts as the lower burst, not as one unit more.
func TestTokenBucket_NeverHoldsMoreThanALoweredBurst(t *testing.T) {
	wide, err := mustLimit(t, limiter.TokenBucket, 10, 10*time.Second).WithBurst(100)
	if err != nil {
		t.Fatal(err)
	}
	narrow, err := wide.WithBurst(12)
	if err != nil {
		t.Fatal(err)
	}
	state, now := wide.NewState(), noon.Add(500*time.Millisecond)
	state.Spend(noon, wide, 12)
	state.Spend(now, wide, 1) // 12.5 units
	if d := state.Decide(now, narrow, 1); d.Allowed || d.Remaining != 0 || d.RetryAfter != time.Second || d.ResetAfter != 12*time.Second {
		t.Errorf("%+v, want a full bucket", d)
	}
}
