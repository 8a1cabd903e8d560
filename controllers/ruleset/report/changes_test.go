package report

import "testing"

func TestChangeCounter_ReportsChangesUntilTheFirst(t *testing.T) {
	var c ChangeCounter
	if now, changed := c.Since(0); now != 0 || !changed {
		t.Errorf("without a watch: %d, %v; want that anything may have changed", now, changed)
	}
	c.Add()
	c.Add()
	for earlier, want := range map[uint64]bool{1: true, 2: false} {
		if now, changed := c.Since(earlier); now != 2 || changed != want {
			t.Errorf("since %d: %d, %v; want 2, %v", earlier, now, changed, want)
		}
	}
}
