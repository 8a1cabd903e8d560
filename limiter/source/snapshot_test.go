package source

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weir-dev/weir/test/fixture"
)

// snapshotOf writes the rule set of that many units to path.
func snapshotOf(t *testing.T, path string, units int64) (revision string) {
	t.Helper()
	data, revision := setOf(units)
	write(t, path, string(data))
	return revision
}

// packed is gzip of text, whose header names that revision; "" for none.
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

func TestASnapshotDoesUntilRedisGivesRules(t *testing.T) {
	data, published := setOf(2)
	silences := map[string]*stub{
		"Redis is away":                    {err: errors.New("refused")},
		"nothing is published":             {},
		"what is published is no rule set": {revision: "sha256:x", data: []byte("x")},
		"what is published is gone":        {revision: "sha256:x"},
	}
	for name, silent := range silences {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "rules.json.gz")
			kept := snapshotOf(t, path, 1)
			var got applied
			var log logbook
			r := NewRedis(silent, path, got.apply, log.logger())
			for range 3 {
				_ = r.follow(t.Context()) // its error is what silent is about
			}
			if r.Ready() != nil || got.last() != kept || got.count() != 1 || r.Origin() != "snapshot "+path {
				t.Fatalf("applied %d times, last %s, from %q, ready: %v; want once, %s", got.count(), got.last(), r.Origin(), r.Ready(), kept)
			}
			if n := log.count("rules in force until Redis gives others"); n != 1 {
				t.Errorf("told %d times of the snapshot, want once", n)
			}
			kept = snapshotOf(t, path, 3)
			_ = r.follow(t.Context())
			if got.last() != kept {
				t.Error("a newer snapshot was not taken while there was nothing else")
			}

			silent.set(published, data)
			if err := r.follow(t.Context()); err != nil || got.last() != published || r.Origin() != "redis" {
				t.Fatalf("%v; in force %s from %q, want what Redis gives", err, got.last(), r.Origin())
			}
			snapshotOf(t, path, 4)
			silent.fail(errors.New("refused"))
			for range 3 {
				_ = r.follow(t.Context())
			}
			if r.Ready() != nil || got.last() != published || r.Origin() != "redis" {
				t.Errorf("when Redis goes: in force %s from %q, ready: %v; want what Redis gave", got.last(), r.Origin(), r.Ready())
			}
		})
	}
}

func TestARuleSetThatIsBothIsAppliedOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.json.gz")
	revision := snapshotOf(t, path, 1)
	data, _ := setOf(1)
	stub := &stub{}
	var got applied
	r := NewRedis(stub, path, got.apply, slog.New(slog.DiscardHandler))
	_ = r.follow(t.Context())
	stub.set(revision, data)
	if err := r.follow(t.Context()); err != nil || got.count() != 1 || r.Origin() != "redis" {
		t.Errorf("%v; applied %d times, from %q; want once, redis", err, got.count(), r.Origin())
	}
}

func TestASnapshotIsRefused(t *testing.T) {
	data, revision := setOf(1)
	damaged := bytes.Clone(data)
	damaged[len(damaged)/2] ^= 1
	tests := map[string]struct {
		content string
		refuse  error // of the limiter
		says    string
		level   string
	}{
		"that is not there":            {says: "is missing", level: "INFO"},
		"that is no rule set":          {content: "rules", says: "refused: decode rules: ", level: "WARN"},
		"cut short":                    {content: string(data[:len(data)-9]), says: "refused: decode rules: unexpected EOF", level: "WARN"},
		"with a bit flipped":           {content: string(damaged), says: "refused: decode rules: ", level: "WARN"},
		"that names no revision":       {content: packed(t, "", `{"format":1,"rules":[]}`), says: "refused: decode rules: the data does not name its revision", level: "WARN"},
		"that names another":           {content: packed(t, revision, `{"format":1,"rules":[]}`), says: `refused: decode rules: the data names revision "` + revision, level: "WARN"},
		"of another format":            {content: packed(t, "", `{"format":9}`), says: "refused: decode rules: unknown format 9, this build reads 1 to 3", level: "WARN"},
		"that the limiter cannot take": {content: string(data), refuse: errors.New("rule shop/x: bad"), says: "refused: rule shop/x: bad", level: "WARN"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "rules.json.gz")
			if test.content != "" {
				write(t, path, test.content)
			}
			got := applied{refuse: test.refuse}
			var log logbook
			r := NewRedis(&stub{err: errors.New("refused")}, path, got.apply, log.logger())
			for range 3 {
				_ = r.follow(t.Context())
			}
			err := r.Ready()
			if err == nil || !strings.HasPrefix(err.Error(), "no rules yet: Redis unreachable: ") ||
				!strings.Contains(err.Error(), "; snapshot "+path+" "+test.says) || r.Origin() != "" {
				t.Fatalf("Ready says %v, want what is wrong with Redis, and that the snapshot %s", err, test.says)
			}
			if n := log.count("level=" + test.level + ` msg="no rules from the snapshot"`); n != 1 {
				t.Errorf("told %d times, want once", n)
			}

			got.refuse = nil
			want := snapshotOf(t, path, 7)
			_ = r.follow(t.Context())
			if r.Ready() != nil || got.last() != want {
				t.Errorf("mended: ready: %v, in force %s", r.Ready(), got.last())
			}
			write(t, path, "rules")
			_ = r.follow(t.Context())
			if r.Ready() != nil || got.last() != want {
				t.Errorf("damaged again: ready: %v, in force %s; want what was", r.Ready(), got.last())
			}
		})
	}
}

// TestASilentRedisDoesNotHoldUpTheSnapshot is about a Redis that takes connections and says nothing.
func TestASilentRedisDoesNotHoldUpTheSnapshot(t *testing.T) {
	server := fixture.Redis(t)
	if err := server.Pause(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "rules.json.gz")
	kept := snapshotOf(t, path, 1)
	var got applied
	e := exchangeAt(t, server.URL()) // which would wait for five seconds
	r := NewRedis(e, path, got.apply, slog.New(slog.DiscardHandler))
	begin := time.Now()
	running(t, r.Run)
	fixture.Await(t, "the snapshot is in force", func() bool { return got.last() == kept })
	if took := time.Since(begin); took > firstWord+500*time.Millisecond {
		t.Errorf("after %v, want %v", took, firstWord)
	}
	if err := server.Resume(); err != nil {
		t.Fatal(err)
	}
	published := publish(t, exchangeAt(t, server.URL()), 2)
	fixture.Await(t, "what Redis gives is in force", func() bool { return got.last() == published && r.Origin() == "redis" })
}

func TestASnapshotIsFoundWhenItComes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.json.gz")
	var got applied
	r := NewRedis(&stub{}, path, got.apply, slog.New(slog.DiscardHandler))
	running(t, r.Run)
	fixture.Await(t, "it says that both are wanting", func() bool {
		err := r.Ready()
		return err != nil && err.Error() == "no rules yet: no rule set published at here; snapshot "+path+" is missing"
	})
	data, revision := setOf(1)
	write(t, path+".new", string(data))
	rename(t, path+".new", path)
	fixture.Await(t, "the snapshot is in force", func() bool { return got.last() == revision && r.Ready() == nil })
}

func TestNoSnapshotIsReadBeforeRedisIsAsked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.json.gz")
	snapshotOf(t, path, 1)
	data, revision := setOf(2)
	stub := &stub{}
	stub.set(revision, data)
	var got applied
	r := NewRedis(stub, path, got.apply, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(t.Context())
	if err := r.begin(ctx); err != nil || got.count() != 1 || got.last() != revision {
		t.Errorf("%v; applied %d times, last %s; want what Redis gives alone", err, got.count(), got.last())
	}
	cancel()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := r.begin(ctx); !errors.Is(err, context.Canceled) || r.Ready() != nil {
		t.Errorf("at the end: %v, ready: %v", err, r.Ready())
	}
}
