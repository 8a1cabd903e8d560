package source_test

import (
	"testing"
	"time"

	"github.com/weir-dev/weir/limiter/source"
)

func TestReplicaCounter_IncreasesImmediatelyAndDecreasesAfterADelay(t *testing.T) {
	counter := source.NewReplicaCounter("b", 3)
	start := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	steps := []struct {
		what        string
		after       time.Duration
		ids         []string // nil: the IDs cannot be read
		count, rank int64
	}{
		{"the initial count", 0, []string{"b"}, 3, 0},
		{"a decrease does not apply yet", 9 * time.Second, []string{"b"}, 3, 0},
		{"Redis fails", 9 * time.Second, nil, 0, 0},
		{"the delay starts again", 12 * time.Second, []string{"b", "c"}, 3, 0},
		{"the delay has not passed", 21 * time.Second, []string{"b", "c"}, 3, 0},
		{"the decrease applies", 22 * time.Second, []string{"b", "c"}, 2, 0},
		{"an increase applies immediately", 23 * time.Second, []string{"a", "b", "c", "d"}, 4, 1},
		{"a replica that is not in the list has the last rank", 24 * time.Second, []string{"a", "c", "d", "e"}, 4, 3},
		{"the rank is less than the count", 25 * time.Second, []string{"a", "aa", "ab", "ac", "b"}, 5, 4},
		{"the same replicas", 45 * time.Second, []string{"a", "aa", "ab", "ac", "b"}, 5, 4},
		{"the delay begins with the decrease", 46 * time.Second, []string{"a", "aa", "b"}, 5, 2},
		{"the missing replicas return", 50 * time.Second, []string{"a", "aa", "ab", "ac", "b"}, 5, 4},
		{"the delay begins again", 52 * time.Second, []string{"a", "b"}, 5, 1},
		{"it has not passed", 61 * time.Second, []string{"a", "b"}, 5, 1},
		{"a loss of all data applies after the delay, too", 62 * time.Second, []string{}, 1, 0},
	}
	for _, s := range steps {
		if s.ids == nil {
			counter.Failed()
			continue
		}
		if count, rank := counter.Update(start.Add(s.after), s.ids); count != s.count || rank != s.rank {
			t.Errorf("%s: %d replicas and rank %d, want %d and %d", s.what, count, rank, s.count, s.rank)
		}
	}
}
