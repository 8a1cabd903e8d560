package decisionlog

import (
	"testing"
	"time"
)

// The events of a second must not overflow into the number of the second.
func TestPerSecond_CountsNoMoreEventsThanItsBitsHold(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	p := perSecond{most: 1 << 40}
	const most = 1<<31 - 1
	p.state.Store(now.Unix()<<31 | (most - 1))
	if !p.admit(now) || p.admit(now) || p.state.Load() != now.Unix()<<31|most {
		t.Errorf("state %x, want %d events", p.state.Load(), most)
	}
	if !p.admit(now.Add(time.Second)) || p.state.Load() != (now.Unix()+1)<<31|1 {
		t.Errorf("state %x, want 1 event in the next second", p.state.Load())
	}
}

// After 2106, the number of the second does not fit into its bits.
func TestPerSecond_BoundsEventsAtAnyTime(t *testing.T) {
	for _, second := range []int64{0, 1, 1_800_000_000, 1<<32 - 1, 1 << 32, 1<<32 + 5, 1 << 40} {
		p, now := perSecond{most: 2}, time.Unix(second, 999_999_999)
		for i, want := range []bool{true, true, false, false} {
			if got := p.admit(now); got != want {
				t.Errorf("second %d: event %d is admitted: %v", second, i+1, got)
			}
		}
		if !p.admit(now.Add(1)) {
			t.Errorf("second %d: the first event of the next second is not admitted", second)
		}
	}
}
