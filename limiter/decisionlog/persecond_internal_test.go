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
