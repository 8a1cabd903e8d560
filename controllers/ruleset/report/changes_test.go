package report

import (
	"testing"
	"time"
)

func TestChangeCounter_ReportsChangesSinceAnEarlierCount(t *testing.T) {
	var c ChangeCounter
	now := time.Unix(1_800_000_000, 0)
	if n, changed := c.Since(0); n != 0 || !changed {
		t.Errorf("without a watch: %d, %v, want that there may have been a change", n, changed)
	}
	c.Add(now)
	n, changed := c.Since(0)
	if n != 1 || !changed || c.AreMany(0) {
		t.Errorf("after a change: %d, %v, many: %v", n, changed, c.AreMany(0))
	}
	if again, changed := c.Since(n); again != n || changed {
		t.Errorf("since then: %d, %v", again, changed)
	}
	if c.IsOne(1) || !c.IsOne(0) {
		t.Errorf("after a change: one since 0, 1: %v, %v", c.IsOne(0), c.IsOne(1))
	}
	now = now.Add(14 * time.Millisecond)
	c.Add(now)
	if c.IsOne(0) || !c.IsOne(1) {
		t.Errorf("after two changes: one since 0, 1: %v, %v", c.IsOne(0), c.IsOne(1))
	}
	if !c.AreMany(0) || !c.AreMany(1) || c.AreMany(2) {
		t.Errorf("a change that follows closely: many since 0, 1, 2: %v, %v, %v", c.AreMany(0), c.AreMany(1), c.AreMany(2))
	}
	for i, test := range []struct {
		after time.Duration
		many  bool
	}{{199 * time.Millisecond, true}, {200 * time.Millisecond, false}, {15 * time.Millisecond, false}, {14 * time.Millisecond, true}} {
		now = now.Add(test.after)
		c.Add(now)
		if many := c.AreMany(uint64(2 + i)); many != test.many {
			t.Errorf("a change %v later: many: %v, want %v", test.after, many, test.many)
		}
	}
}
