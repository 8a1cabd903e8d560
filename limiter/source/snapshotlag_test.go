package source

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestSnapshotLag_IsTheTimeSinceTheSnapshotDiffers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.json.gz")
	lag, start := NewSnapshotLag(path), time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	first, second := "", ""
	steps := []struct {
		what   string
		change func()
		active *string
		after  time.Duration
		want   time.Duration
	}{
		{"no rules are active", func() {}, new(string), 0, 0},
		{"the snapshot is written", func() { first = snapshotOf(t, path, 1) }, &first, time.Minute, 0},
		{"it has the active rules", func() {}, &first, time.Hour, 0},
		{"a policy was edited", func() { _, second = setOf(2) }, &second, 2 * time.Hour, 0},
		{"the kubelet has not copied it yet", func() {}, &second, 2*time.Hour + time.Minute, time.Minute},
		{"it has", func() { snapshotOf(t, path, 2) }, &second, 2*time.Hour + 2*time.Minute, 0},
		{"it has the active rules again", func() {}, &second, 4 * time.Hour, 0},
		{"the file is damaged", func() { write(t, path, "damaged") }, &second, 5 * time.Hour, 0},
		{"it still is", func() {}, &second, 6 * time.Hour, time.Hour},
		{"it is repaired", func() { snapshotOf(t, path, 2) }, &second, 7 * time.Hour, 0},
		{"the file is removed", func() { remove(t, path) }, &second, 8 * time.Hour, 0},
		{"it still is missing", func() {}, &second, 9 * time.Hour, time.Hour},
		{"the edit is undone, and the file is missing", func() {}, &first, 10 * time.Hour, 2 * time.Hour},
	}
	for _, s := range steps {
		s.change()
		if got := lag.Measure(start.Add(s.after), *s.active); got != s.want {
			t.Errorf("%s: %v, want %v", s.what, got, s.want)
		}
	}
}

// A rule set in several files is decoded again if one of them changes.
func TestSnapshotLag_ReadsAllParts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.json.gz")
	data, revision := setOf(1)
	half := len(data) / 2
	write(t, path, string(data[:half]))
	lag, start := NewSnapshotLag(path), time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	lag.Measure(start, revision)
	if got := lag.Measure(start.Add(time.Minute), revision); got != time.Minute {
		t.Errorf("with half of the rules: %v, want a minute", got)
	}
	write(t, path+".1", string(data[half:]))
	if got := lag.Measure(start.Add(2*time.Minute), revision); got != 0 {
		t.Errorf("with both parts: %v, want 0", got)
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}
