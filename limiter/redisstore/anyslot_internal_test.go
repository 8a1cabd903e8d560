package redisstore

import (
	"testing"
	"time"
)

func TestTogetherness_DoublesThePauseAfterEachRunInVain(t *testing.T) {
	var together togetherness
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	paused := func(want time.Duration) {
		t.Helper()
		if want > 0 && !together.isPaused(now.Add(want-1)) || together.isPaused(now.Add(want)) {
			t.Errorf("want a pause of %v", want)
		}
		now = now.Add(want)
	}
	paused(0)
	for _, want := range []time.Duration{100 * time.Millisecond, 200 * time.Millisecond, 400 * time.Millisecond} {
		together.pause(now)
		together.pause(now.Add(want / 2)) // a batch that was sent before
		paused(want)
	}
	for range 12 {
		together.pause(now)
		now = now.Add(time.Hour)
	}
	together.pause(now)
	paused(time.Minute)
	together.resume()
	together.pause(now)
	paused(100 * time.Millisecond)
}
