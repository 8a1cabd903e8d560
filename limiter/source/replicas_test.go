package source_test

import (
	"testing"
	"time"

	"github.com/weir-dev/weir/limiter/source"
)

func TestReplicasAreFewerOnlyAfterAWhileAndMoreAtOnce(t *testing.T) {
	census := source.NewReplicaCounter("b", 3)
	start := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	steps := []struct {
		what        string
		after       time.Duration
		ids         []string // nil: nothing is heard
		count, rank int64
	}{
		{"at first what was said", 0, []string{"b"}, 3, 0},
		{"fewer are not believed yet", 9 * time.Second, []string{"b"}, 3, 0},
		{"Redis goes away", 9 * time.Second, nil, 0, 0},
		{"after which the wait begins anew", 12 * time.Second, []string{"b", "c"}, 3, 0},
		{"and is not over", 21 * time.Second, []string{"b", "c"}, 3, 0},
		{"until it is", 22 * time.Second, []string{"b", "c"}, 2, 0},
		{"more are believed at once", 23 * time.Second, []string{"a", "b", "c", "d"}, 4, 1},
		{"who is not heard of is the last", 24 * time.Second, []string{"a", "c", "d", "e"}, 4, 3},
		{"nor is a place beyond the count", 25 * time.Second, []string{"a", "aa", "ab", "ac", "b"}, 5, 4},
	}
	for _, s := range steps {
		if s.ids == nil {
			census.Missed()
			continue
		}
		if count, rank := census.Heard(start.Add(s.after), s.ids); count != s.count || rank != s.rank {
			t.Errorf("%s: %d replicas and place %d, want %d and %d", s.what, count, rank, s.count, s.rank)
		}
	}
}
