package source

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weir-dev/weir/test/fixture"
)

// snapshotOf writes a rule set with a limit of units to path.
func snapshotOf(t *testing.T, path string, units int64) (revision string) {
	t.Helper()
	data, revision := setOf(units)
	write(t, path, string(data))
	return revision
}

// packed returns text in gzip. Its header names a revision, unless name is empty.
func packed(t *testing.T, name, text string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	w.Comment = name
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestRedis_UsesTheSnapshotUntilRedisHasRules(t *testing.T) {
	data, published := setOf(2)
	silences := map[string]*stub{
		"Redis fails":             {err: errors.New("refused")},
		"nothing is published":    {},
		"the rule set is invalid": {revision: "sha256:x", data: []byte("x")},
		"the rule set is missing": {revision: "sha256:x"},
	}
	for name, silent := range silences {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "rules.json.gz")
			kept := snapshotOf(t, path, 1)
			var got applied
			var log logbook
			r := NewRedis(silent, path, got.applyShards, log.logger())
			for range 3 {
				_ = r.refresh(t.Context()) // fails, as the test case describes
			}
			if r.Ready() != nil || got.last() != kept || got.count() != 1 || r.Origin() != "snapshot "+path {
				t.Fatalf("applied %d times, last %s, from %q, ready: %v; want once, %s", got.count(), got.last(), r.Origin(), r.Ready(), kept)
			}
			if n := log.count("activated rules from the snapshot, until Redis returns rules"); n != 1 {
				t.Errorf("%d log lines about the snapshot, want 1", n)
			}
			kept = snapshotOf(t, path, 3)
			_ = r.refresh(t.Context())
			if got.last() != kept {
				t.Error("a newer snapshot is not used while Redis has no rules")
			}

			silent.set(published, data)
			if err := r.refresh(t.Context()); err != nil || got.last() != published || r.Origin() != "redis" {
				t.Fatalf("%v; active revision %s from %q, want the rules from Redis", err, got.last(), r.Origin())
			}
			snapshotOf(t, path, 4)
			silent.fail(errors.New("refused"))
			for range 3 {
				_ = r.refresh(t.Context())
			}
			if r.Ready() != nil || got.last() != published || r.Origin() != "redis" {
				t.Errorf("after Redis failed: active revision %s from %q, ready: %v; want the rules from Redis", got.last(), r.Origin(), r.Ready())
			}
		})
	}
}

func TestRedis_AppliesEqualRulesFromSnapshotAndRedisOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.json.gz")
	revision := snapshotOf(t, path, 1)
	data, _ := setOf(1)
	stub := &stub{}
	var got applied
	r := NewRedis(stub, path, got.applyShards, slog.New(slog.DiscardHandler))
	_ = r.refresh(t.Context())
	stub.set(revision, data)
	if err := r.refresh(t.Context()); err != nil || got.count() != 1 || r.Origin() != "redis" {
		t.Errorf("%v; applied %d times, from %q; want once, redis", err, got.count(), r.Origin())
	}
}

func TestRedis_RejectsAnInvalidSnapshot(t *testing.T) {
	data, revision := setOf(1)
	damaged := bytes.Clone(data)
	damaged[len(damaged)/2] ^= 1
	tests := map[string]struct {
		content string
		apply   error // result of Apply
		want    string
		level   string
	}{
		"that does not exist":    {want: "is missing", level: "INFO"},
		"that is not a rule set": {content: "rules", want: "rejected: decode rules: ", level: "WARN"},
		"cut short":              {content: string(data[:len(data)-9]), want: "rejected: decode rules: unexpected EOF", level: "WARN"},
		"with a bit flipped":     {content: string(damaged), want: "rejected: decode rules: ", level: "WARN"},
		"that names no revision": {content: packed(t, "", `{"format":1,"rules":[]}`), want: "rejected: decode rules: the data does not contain its revision", level: "WARN"},
		"that names another":     {content: packed(t, revision, `{"format":1,"rules":[]}`), want: `rejected: decode rules: the data contains revision "` + revision, level: "WARN"},
		"of another format":      {content: packed(t, "", `{"format":9}`), want: "rejected: decode rules: unknown format 9; this build reads formats 1 to 4", level: "WARN"},
		"that Apply rejects":     {content: string(data), apply: errors.New("rule shop/x: bad"), want: "rejected: rule shop/x: bad", level: "WARN"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "rules.json.gz")
			if test.content != "" {
				write(t, path, test.content)
			}
			got := applied{rejection: test.apply}
			var log logbook
			r := NewRedis(&stub{err: errors.New("refused")}, path, got.applyShards, log.logger())
			for range 3 {
				_ = r.refresh(t.Context())
			}
			err := r.Ready()
			if err == nil || !strings.HasPrefix(err.Error(), "no rules yet: Redis unreachable: ") ||
				!strings.Contains(err.Error(), "; snapshot "+path+" "+test.want) || r.Origin() != "" {
				t.Fatalf("Ready: %v, want the error of Redis, and of the snapshot: %s", err, test.want)
			}
			if n := log.count("level=" + test.level + ` msg="cannot use the snapshot; no rules yet"`); n != 1 {
				t.Errorf("%d log lines, want 1", n)
			}

			got.rejection = nil
			want := snapshotOf(t, path, 7)
			_ = r.refresh(t.Context())
			if r.Ready() != nil || got.last() != want {
				t.Errorf("after the repair: ready: %v, active revision %s", r.Ready(), got.last())
			}
			write(t, path, "rules")
			_ = r.refresh(t.Context())
			if r.Ready() != nil || got.last() != want {
				t.Errorf("damaged again: ready: %v, active revision %s; want the previous one", r.Ready(), got.last())
			}
		})
	}
}

// TestRedis_UsesTheSnapshotWhileRedisDoesNotRespond uses a Redis that accepts connections and never responds.
func TestRedis_UsesTheSnapshotWhileRedisDoesNotRespond(t *testing.T) {
	server := fixture.Redis(t)
	if err := server.Pause(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "rules.json.gz")
	kept := snapshotOf(t, path, 1)
	var got applied
	e := exchangeAt(t, server.URL()) // with a timeout of five seconds, of which Redis gets at least half for a reply
	r := NewRedis(e, path, got.applyShards, slog.New(slog.DiscardHandler))
	begin := time.Now()
	running(t, r.Run)
	fixture.Await(t, "the snapshot is active", func() bool { return got.last() == kept })
	if took := time.Since(begin); took > 3*time.Second {
		t.Errorf("after %v, want at most 2.5 s", took)
	}
	if err := server.Resume(); err != nil {
		t.Fatal(err)
	}
	published := publish(t, exchangeAt(t, server.URL()), 2)
	fixture.Await(t, "the rules from Redis are active", func() bool { return got.last() == published && r.Origin() == "redis" })
}

func TestRedis_FindsASnapshotThatAppearsLater(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.json.gz")
	var got applied
	r := NewRedis(&stub{}, path, got.applyShards, slog.New(slog.DiscardHandler))
	running(t, r.Run)
	fixture.Await(t, "Ready reports both errors", func() bool {
		err := r.Ready()
		return err != nil && err.Error() == "no rules yet: no rule set published at here; snapshot "+path+" is missing"
	})
	data, revision := setOf(1)
	write(t, path+".new", string(data))
	rename(t, path+".new", path)
	fixture.Await(t, "the snapshot is active", func() bool { return got.last() == revision && r.Ready() == nil })
}

func TestRedis_FetchesFromRedisBeforeItReadsTheSnapshot(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.json.gz")
	snapshotOf(t, path, 1)
	data, revision := setOf(2)
	stub := &stub{}
	stub.set(revision, data)
	var got applied
	r := NewRedis(stub, path, got.applyShards, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(t.Context())
	if err := r.refreshFirst(ctx); err != nil || got.count() != 1 || got.last() != revision {
		t.Errorf("%v; applied %d times, last %s; want only the rules from Redis", err, got.count(), got.last())
	}
	cancel()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := r.refreshFirst(ctx); !errors.Is(err, context.Canceled) || r.Ready() != nil {
		t.Errorf("at the end: %v, ready: %v", err, r.Ready())
	}
}

// A snapshot that disappears for a moment, as a mounted ConfigMap can, is not applied again.
func TestRedis_AppliesASnapshotThatAppearsAgainOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.json.gz")
	revision := snapshotOf(t, path, 1)
	var got applied
	r := NewRedis(&stub{}, path, got.applyShards, slog.New(slog.DiscardHandler))
	_ = r.refresh(t.Context())
	rename(t, path, path+".old")
	_ = r.refresh(t.Context())
	rename(t, path+".old", path)
	_ = r.refresh(t.Context())
	if got.count() != 1 || got.last() != revision || r.Ready() != nil {
		t.Errorf("applied %d times, last %s, ready: %v; want once", got.count(), got.last(), r.Ready())
	}
}

func TestRedis_ReadsASnapshotInSeveralFiles(t *testing.T) {
	data, revision := setOf(7)
	third := len(data) / 3
	path := filepath.Join(t.TempDir(), "rules.json.gz")
	write(t, path, string(data[:third]))
	write(t, path+".1", string(data[third:2*third]))
	var got applied
	r := NewRedis(&stub{err: errors.New("refused")}, path, got.applyShards, slog.New(slog.DiscardHandler))
	_ = r.refresh(t.Context())
	if r.Ready() == nil {
		t.Fatal("ready without the last file")
	}
	write(t, path+".2", string(data[2*third:]))
	_ = r.refresh(t.Context())
	if err := r.Ready(); err != nil || got.last() != revision {
		t.Fatalf("%v; active revision %s, want %s", err, got.last(), revision)
	}

	smaller := snapshotOf(t, path, 8) // the other files remain
	_ = r.refresh(t.Context())
	if got.last() != smaller {
		t.Errorf("active revision %s, want %s: the files of a larger rule set remain", got.last(), smaller)
	}
}

func TestRedis_ReadsABoundedNumberOfSnapshotFiles(t *testing.T) {
	data, revision := setOf(7)
	for files, want := range map[int]string{8: revision, 9: ""} {
		path := filepath.Join(t.TempDir(), "rules.json.gz")
		size := len(data)/files + 1
		for i := range files {
			name := path
			if i > 0 {
				name = fmt.Sprintf("%s.%d", path, i)
			}
			write(t, name, string(data[min(len(data), i*size):min(len(data), (i+1)*size)]))
		}
		var got applied
		r := NewRedis(&stub{err: errors.New("refused")}, path, got.applyShards, slog.New(slog.DiscardHandler))
		_ = r.refresh(t.Context())
		if last := got.last(); last != want {
			t.Errorf("%d files: active revision %q, want %q", files, last, want)
		}
	}
}
