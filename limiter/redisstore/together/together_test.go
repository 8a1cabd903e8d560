package together_test

import (
	"testing"
	"time"

	"github.com/weir-dev/weir/limiter/redisstore/together"
)

func TestNodes_DoublesThePauseAfterEachRunInVain(t *testing.T) {
	var nodes together.Nodes
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	paused := func(want time.Duration) {
		t.Helper()
		if want > 0 && !nodes.IsPaused("a", now.Add(want-1)) || nodes.IsPaused("a", now.Add(want)) {
			t.Errorf("want a pause of %v", want)
		}
		now = now.Add(want)
	}
	paused(0)
	for _, want := range []time.Duration{100 * time.Millisecond, 200 * time.Millisecond, 400 * time.Millisecond} {
		nodes.Pause("a", now)
		nodes.Pause("a", now.Add(want/2)) // a batch that was sent before
		paused(want)
	}
	for range 12 {
		nodes.Pause("a", now)
		now = now.Add(time.Hour)
	}
	nodes.Pause("a", now)
	paused(time.Minute)
	nodes.Resume("b")
	nodes.Pause("a", now)
	paused(time.Minute)
	nodes.Resume("a")
	nodes.Pause("a", now)
	paused(100 * time.Millisecond)
}
