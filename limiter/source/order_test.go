package source

import (
	"errors"
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/weir-dev/weir/limiter/rules"
)

func TestRedis_AppliesOnlyANewerSnapshotInAnOutage(t *testing.T) {
	tests := map[string]struct {
		redis, snapshot int64
		damaged, want   bool
	}{
		"newer":                         {redis: 5, snapshot: 6, want: true},
		"same":                          {redis: 5, snapshot: 5},
		"older":                         {redis: 5, snapshot: 4},
		"snapshot without a sequence":   {redis: 5},
		"Redis without a sequence":      {snapshot: 5},
		"both without a sequence":       {},
		"newer with a damaged sequence": {redis: 5, snapshot: 6, damaged: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "rules.json.gz")
			data, revision := ordered(1, test.redis)
			stub := &stub{revision: revision, data: data}
			var got applied
			var log logbook
			r := NewRedis(stub, path, got.applyShards, log.logger())
			_ = r.refresh(t.Context())
			stub.fail(errors.New("refused"))
			newer, newerRevision := ordered(2, test.snapshot)
			if test.damaged {
				newer[20] ^= 1
			}
			write(t, path, string(newer))
			for range 3 {
				_ = r.refresh(t.Context())
			}
			if used := got.last() == newerRevision; used != test.want || got.count() > 2 {
				t.Fatalf("the snapshot is active: %v, want %v; applied %d times", used, test.want, got.count())
			}
			if n := log.count("activated newer rules from the snapshot"); (n == 1) != test.want {
				t.Errorf("%d log lines", n)
			}
		})
	}
}

func TestRedis_KeepsNewerRulesUntilRedisHasThem(t *testing.T) {
	tests := map[string]struct {
		sequence int64 // in Redis
		applied  bool
	}{"older": {5, false}, "same": {7, true}, "newer": {8, true}, "no sequence": {0, true}}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "rules.json.gz")
			before, revision := ordered(1, 5)
			stub := &stub{revision: revision, data: before}
			var got applied
			r := NewRedis(stub, path, got.applyShards, slog.New(slog.DiscardHandler))
			_ = r.refresh(t.Context())
			stub.fail(errors.New("refused"))
			kept, keptRevision := ordered(2, 7)
			write(t, path, string(kept))
			_ = r.refresh(t.Context())
			data, returned := ordered(3, test.sequence)
			stub.set(returned, data)
			err := r.refresh(t.Context())
			if applied := got.last() == returned; applied != test.applied || (r.Rejected() == nil) != test.applied || (err == nil) != test.applied {
				t.Fatalf("active %s, rejected %v, %v", got.last(), r.Rejected(), err)
			}
			if test.applied {
				return
			}
			if got.last() != keptRevision || r.Origin() != "snapshot "+path {
				t.Errorf("active %s from %s", got.last(), r.Origin())
			}
			stub.set(keptRevision, kept) // the operator publishes
			if err := r.refresh(t.Context()); err != nil || r.Rejected() != nil || r.Origin() != "redis" {
				t.Errorf("after the publication: %v, rejected %v, from %s", err, r.Rejected(), r.Origin())
			}
		})
	}
}

// A revision can be published again after another one. The snapshot of the other one is then older.
func TestRedis_ReadsTheSequenceOfRulesThatArePublishedAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.json.gz")
	data, revision := ordered(1, 5)
	stub := &stub{revision: revision, data: data}
	var got applied
	r := NewRedis(stub, path, got.applyShards, slog.New(slog.DiscardHandler))
	_ = r.refresh(t.Context())
	stub.set(revision, rules.WithSequence(data, 7))
	r.verify = true // as after a notification
	_ = r.refresh(t.Context())
	stub.fail(errors.New("refused"))
	between, _ := ordered(2, 6)
	write(t, path, string(between))
	_ = r.refresh(t.Context())
	if got.last() != revision || got.count() != 1 {
		t.Errorf("active %s, want %s", got.last(), revision)
	}
}

func ordered(units, sequence int64) (data []byte, revision string) {
	data, revision = setOf(units)
	if sequence != 0 {
		data = rules.WithSequence(data, sequence)
	}
	return data, revision
}
