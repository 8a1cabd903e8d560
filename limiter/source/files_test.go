package source

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/test/fixture"
)

// limitIn loads a rule set whose limit is the number in dir/limit. "problem" has an
// invalid policy, whose previous version stays, and an invalid file.
func limitIn(dir string) Load {
	return func() (Loaded, error) {
		text, err := os.ReadFile(filepath.Join(dir, "limit"))
		if err != nil {
			return Loaded{}, err
		}
		if string(text) == "problem" {
			return Loaded{
				Problems: []Problem{
					{File: "a.yaml", Line: 5, Policy: "shop/x", Field: "spec.limit", Message: "bad"},
					{File: "b.yaml", Line: 1, Message: "no YAML"},
				},
				Kept: []string{"shop/x"},
			}, nil
		}
		units, err := strconv.ParseInt(string(text), 10, 64)
		if err != nil {
			return Loaded{}, err
		}
		data, _ := setOf(units)
		set, _, err := rules.Decode(data)
		return Loaded{Set: set}, err
	}
}

func revisionOf(units int64) string {
	_, revision := setOf(units)
	return revision
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func rename(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

// runningFiles runs a Files on dir and waits until its rules are active.
func runningFiles(t *testing.T, dir string, got *applied, log *slog.Logger) {
	t.Helper()
	f := NewFiles(dir, limitIn(dir), got.apply, log)
	running(t, func(ctx context.Context) {
		if err := f.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	fixture.Await(t, "the rules are active", func() bool { return f.Ready() == nil })
}

func TestFiles_FollowsEdits(t *testing.T) {
	edits := map[string]func(t *testing.T, dir string){
		"written in place": func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, "limit"), "2")
		},
		"written to another file and renamed, as by an editor": func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, "limit.new"), "2")
			rename(t, filepath.Join(dir, "limit.new"), filepath.Join(dir, "limit"))
		},
		"moved and written again": func(t *testing.T, dir string) {
			rename(t, filepath.Join(dir, "limit"), filepath.Join(dir, "limit~"))
			write(t, filepath.Join(dir, "limit"), "2")
		},
		"the directory replaced": func(t *testing.T, dir string) {
			rename(t, dir, dir+".old")
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(dir, "limit"), "2")
		},
	}
	for name, edit := range edits {
		t.Run(name, func(t *testing.T) {
			defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
			dir := filepath.Join(t.TempDir(), "policies")
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(dir, "limit"), "1")
			t.Run("", func(t *testing.T) {
				var got applied
				runningFiles(t, dir, &got, slog.New(slog.DiscardHandler))
				for range 2 { // the source still watches after a replacement
					edit(t, dir)
					fixture.Await(t, "the edit is active", func() bool { return got.last() == revisionOf(2) })
					write(t, filepath.Join(dir, "limit"), "3")
					fixture.Await(t, "the next edit is active", func() bool { return got.last() == revisionOf(3) })
					if err := os.RemoveAll(dir + ".old"); err != nil {
						t.Fatal(err)
					}
				}
			})
		})
	}
}

// TestFiles_FollowsAConfigMap replaces files as the kubelet does: dir/limit links to ..data/limit, and ..data is a link
// to a directory that is replaced.
func TestFiles_FollowsAConfigMap(t *testing.T) {
	dir := t.TempDir()
	update := func(units int64) {
		version := fmt.Sprintf("..version-%d", units)
		if err := os.Mkdir(filepath.Join(dir, version), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, version, "limit"), strconv.FormatInt(units, 10))
		if err := os.Symlink(version, filepath.Join(dir, "..data_tmp")); err != nil {
			t.Fatal(err)
		}
		rename(t, filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data"))
	}
	update(1)
	if err := os.Symlink(filepath.Join("..data", "limit"), filepath.Join(dir, "limit")); err != nil {
		t.Fatal(err)
	}
	var got applied
	runningFiles(t, dir, &got, slog.New(slog.DiscardHandler))
	for units := int64(2); units < 5; units++ {
		update(units)
		fixture.Await(t, "the update is active", func() bool { return got.last() == revisionOf(units) })
	}
}

func TestFiles_KeepsItsRulesIfTheDirectoryCannotBeRead(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "limit"), "1")
	var got applied
	var log logbook
	f := NewFiles(dir, limitIn(dir), got.apply, log.logger())
	if err := f.Ready(); err == nil || !strings.Contains(err.Error(), "has not been read") {
		t.Errorf("Ready before the first read: %v", err)
	}
	if err := f.Reload(); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "limit"), "x")
	for range 3 {
		if err := f.Reload(); err == nil || !strings.Contains(err.Error(), "read policies in "+dir) {
			t.Fatalf("error %v, want one that names the directory", err)
		}
	}
	if n := log.count("level=WARN"); n != 1 || log.count("active="+revisionOf(1)+"\n") != 1 {
		t.Errorf("%d warnings about one error, want 1 with the active revision:\n%s", n, &log)
	}
	if got.last() != revisionOf(1) || got.count() != 1 || f.Ready() != nil {
		t.Errorf("active revision %s after %d changes, ready: %v; want the previous one", got.last(), got.count(), f.Ready())
	}
}

func TestFiles_LogsAProblemOnce(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "limit"), "problem")
	var got applied
	var log logbook
	f := NewFiles(dir, limitIn(dir), got.apply, log.logger())
	for range 3 {
		if err := f.Reload(); err != nil {
			t.Fatal(err)
		}
	}
	for _, line := range []string{
		`msg="invalid policy" file=a.yaml line=5 policy=shop/x field=spec.limit problem=bad`,
		`msg="invalid policy file" file=b.yaml line=1 problem="no YAML"`,
		`msg="previous version stays enforced" policies=shop/x`,
	} {
		if n := log.count(line + "\n"); n != 1 {
			t.Errorf("%d lines %s, want 1:\n%s", n, line, &log)
		}
	}
	if got.count() != 1 {
		t.Errorf("applied %d times, want once", got.count())
	}
}

func TestFiles_AppliesAVersionOnce(t *testing.T) {
	loaded, applied := Loaded{}, 0
	var broken error
	f := NewFiles("policies", func() (Loaded, error) { return loaded, nil }, func(rules.Set, string) error { applied++; return broken }, slog.New(slog.DiscardHandler))
	set := func(units int64) rules.Set {
		data, _ := setOf(units)
		set, _, err := rules.Decode(data)
		if err != nil {
			t.Fatal(err)
		}
		return set
	}
	for i, step := range []struct {
		loaded  Loaded
		broken  error
		applied int // in total
	}{
		{Loaded{Version: "a", Set: set(1)}, errors.New("broken"), 1},
		{Loaded{Version: "a", Set: set(1)}, nil, 2}, // it was not applied
		{Loaded{Version: "a", Set: set(2)}, nil, 2}, // not compared
		{Loaded{Version: "b", Set: set(1)}, nil, 2}, // the same rules
		{Loaded{Version: "c", Set: set(2)}, nil, 3},
		{Loaded{Set: set(3)}, nil, 4},
		{Loaded{Set: set(4)}, nil, 5},
	} {
		loaded, broken = step.loaded, step.broken
		if err := f.Reload(); !errors.Is(err, step.broken) || applied != step.applied {
			t.Errorf("step %d: Reload = %v after %d calls of apply, want %v after %d", i, err, applied, step.broken, step.applied)
		}
	}
}

func TestFiles_ReadyReturnsTheReason(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "absent")
	var got applied
	var log logbook
	f := NewFiles(dir, limitIn(dir), got.apply, log.logger())
	if err := f.Reload(); err == nil {
		t.Error("a directory that does not exist was read")
	}
	if log.count(`msg="cannot read the policies; no rules yet"`) != 1 || log.count("active=") != 0 {
		t.Errorf("log, want that there are no rules yet:\n%s", &log)
	}
	if got := f.Origin(); got != "directory "+dir {
		t.Errorf("Origin: %q", got)
	}
	if err := f.Ready(); err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("Ready: %v, want the directory and the reason", err)
	}
}

// An error that comes back after a repair is logged again.
func TestFiles_LogsAnErrorAgainAfterASuccess(t *testing.T) {
	dir := t.TempDir()
	var got applied
	var log logbook
	f := NewFiles(dir, limitIn(dir), got.apply, log.logger())
	for _, text := range []string{"x", "1", "x"} {
		write(t, filepath.Join(dir, "limit"), text)
		_ = f.Reload() // fails for x
	}
	if n := log.count("cannot read the policies"); n != 2 {
		t.Errorf("%d warnings about two errors:\n%s", n, &log)
	}
	if err := f.Ready(); err != nil {
		t.Errorf("Ready: %v", err)
	}
}

// Problems are logged if they change, and the policies that stay enforced only if there are any.
func TestFiles_LogsWhatChanges(t *testing.T) {
	bad, worse := Problem{File: "a.yaml", Message: "bad"}, Problem{File: "a.yaml", Message: "worse"}
	var loaded Loaded
	var got applied
	var log logbook
	f := NewFiles(t.TempDir(), func() (Loaded, error) { return loaded, nil }, got.apply, log.logger())
	steps := []struct {
		what           string
		problems       []Problem
		kept           []string
		problem, stays int // lines
	}{
		{"nothing is wrong", nil, nil, 0, 0},
		{"a problem", []Problem{bad}, nil, 1, 0},
		{"the same", []Problem{bad}, nil, 1, 0},
		{"another problem", []Problem{worse}, nil, 2, 0},
		{"a previous version stays", []Problem{worse}, []string{"shop/x"}, 3, 1},
		{"the same", []Problem{worse}, []string{"shop/x"}, 3, 1},
		{"another stays", []Problem{worse}, []string{"shop/y"}, 4, 2},
		{"the problem is solved", nil, nil, 4, 2},
		{"and comes back", []Problem{worse}, nil, 5, 2},
	}
	for _, s := range steps {
		loaded = Loaded{Problems: s.problems, Kept: s.kept}
		if err := f.Reload(); err != nil {
			t.Fatal(err)
		}
		if problem, stays := log.count("invalid policy file"), log.count("previous version stays"); problem != s.problem || stays != s.stays {
			t.Errorf("%s: %d lines about problems and %d about previous versions, want %d and %d", s.what, problem, stays, s.problem, s.stays)
		}
	}
}

func TestAbbreviate_ListsAtMostTenPolicies(t *testing.T) {
	names := strings.Fields("a b c d e f g h i j k l")
	for n, want := range map[int]string{
		1:  "a",
		10: "a, b, c, d, e, f, g, h, i, j",
		11: "a, b, c, d, e, f, g, h, i, j and 1 more",
		12: "a, b, c, d, e, f, g, h, i, j and 2 more",
	} {
		if got := abbreviate(names[:n]); got != want {
			t.Errorf("%d policies: %q, want %q", n, got, want)
		}
	}
}

// An editor and an update of a ConfigMap cause several events each. They are read together.
func TestFiles_ReadsChangesInQuickSuccessionTogether(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "limit"), "1")
	var reads atomic.Int32
	var got applied
	load := limitIn(dir)
	f := NewFiles(dir, func() (Loaded, error) { reads.Add(1); return load() }, got.apply, slog.New(slog.DiscardHandler))
	running(t, func(ctx context.Context) {
		if err := f.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	fixture.Await(t, "the rules are active", func() bool { return f.Ready() == nil })
	before := reads.Load()
	const changes = 40
	for i := range changes {
		write(t, filepath.Join(dir, "limit"), strconv.Itoa(i+2))
		time.Sleep(5 * time.Millisecond)
	}
	fixture.Await(t, "the last change is active", func() bool { return got.last() == revisionOf(changes+1) })
	if n := reads.Load() - before; n > changes/4 {
		t.Errorf("%d reads of %d changes within %v", n, changes, 5*changes*time.Millisecond)
	}
}

// setWith returns a rule set with these policies.
func setWith(policies ...string) rules.Set {
	var set rules.Set
	for _, policy := range policies {
		set.Rules = append(set.Rules, rules.Rule{
			Policy: policy, Domain: "shop", Axis: "Tenant", Identifier: rules.Identifier{From: rules.FromHeader, Name: "x"},
			Algorithm: limiter.FixedWindow, Units: 1, WindowSeconds: 60,
		})
	}
	return set
}

// A program can truncate a file and write it again, delete it and create it, or write it in parts. Each of these steps can be read.
func TestFiles_KeepsItsRulesWhilePoliciesAreMissing(t *testing.T) {
	type step struct {
		after  time.Duration
		files  string // the policies in the files
		active string // afterwards
	}
	for name, steps := range map[string][]step{
		"an empty file":                         {{0, "a b", "a b"}, {0, "", "a b"}, {100 * time.Millisecond, "a b", "a b"}, {time.Hour, "a b", "a b"}},
		"a part of a file":                      {{0, "a b c", "a b c"}, {0, "a b", "a b c"}, {4 * time.Second, "a b", "a b c"}, {0, "a b c", "a b c"}},
		"a part, and an edit":                   {{0, "a b", "a b"}, {0, "b d", "a b"}, {time.Second, "a b d", "a b d"}},
		"a policy that is removed":              {{0, "a b", "a b"}, {0, "a", "a b"}, {4999 * time.Millisecond, "a", "a b"}, {time.Millisecond, "a", "a"}},
		"all policies that are removed":         {{0, "a b", "a b"}, {0, "", "a b"}, {5 * time.Second, "", ""}},
		"a policy that is renamed":              {{0, "a", "a"}, {0, "b", "a"}, {5 * time.Second, "b", "b"}},
		"more and more that is missing":         {{0, "a b", "a b"}, {0, "a", "a b"}, {4 * time.Second, "", "a b"}, {time.Second, "", "a b"}, {4 * time.Second, "", ""}},
		"one after the other":                   {{0, "a b", "a b"}, {0, "a", "a b"}, {4 * time.Second, "b", "a b"}, {4 * time.Second, "a", "a b"}},
		"twice":                                 {{0, "a", "a"}, {0, "", "a"}, {4 * time.Second, "a", "a"}, {time.Minute, "", "a"}, {4 * time.Second, "", "a"}},
		"a new policy":                          {{0, "a", "a"}, {0, "a b", "a b"}},
		"files that are empty at the beginning": {{0, "", ""}, {0, "a", "a"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var read rules.Set
				active := "none"
				apply := func(set rules.Set, _ string) error {
					active = ""
					for _, r := range set.Rules {
						active = strings.TrimSpace(active + " " + r.Policy)
					}
					return nil
				}
				f := NewFiles("policies", func() (Loaded, error) { return Loaded{Set: read}, nil }, apply, slog.New(slog.DiscardHandler))
				for i, s := range steps {
					time.Sleep(s.after)
					read = setWith(strings.Fields(s.files)...)
					if err := f.Reload(); err != nil || active != s.active {
						t.Errorf("step %d: with %q in the files, %q is active, want %q; %v", i, s.files, active, s.active, err)
					}
				}
			})
		})
	}
}

// An error in between does not make policies present.
func TestFiles_ReportsMissingPoliciesOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		read := setWith("a", "b")
		var broken error
		var got applied
		var log logbook
		f := NewFiles("policies", func() (Loaded, error) { return Loaded{Set: read}, broken }, got.apply, log.logger())
		reload := func(want error) {
			t.Helper()
			if err := f.Reload(); !errors.Is(err, want) {
				t.Errorf("%v, want %v", err, want)
			}
		}
		reload(nil)
		read = setWith("b")
		for range 3 {
			reload(nil)
			time.Sleep(time.Second)
		}
		broken = os.ErrPermission
		reload(broken)
		broken = nil
		reload(nil)
		if n := log.count("msg=\"policies are missing from the files, which may be incomplete; the active rules stay for now\" missing=a for=5s directory=policies"); n != 1 {
			t.Errorf("%d warnings, want 1:\n%s", n, &log)
		}
		if time.Sleep(2 * time.Second); got.count() != 1 {
			t.Errorf("applied %d times before the end", got.count())
		}
		if reload(nil); got.count() != 2 {
			t.Errorf("applied %d times after 5 s, want twice", got.count())
		}
	})
}

// Without notifications, for example on a network file system, a poll can read a file while it is written.
func TestFiles_APollReadsAChangeTwice(t *testing.T) {
	read := Loaded{Version: "1", Set: setWith("a")}
	var got applied
	f := NewFiles("policies", func() (Loaded, error) { return read, nil }, got.apply, slog.New(slog.DiscardHandler))
	for i, s := range []struct {
		version string
		set     rules.Set
		again   bool
		applied int
	}{
		{"1", setWith("a"), false, 1},
		{"2", setWith("a", "b"), true, 1},
		{"3", setWith("a", "b", "c"), true, 1},
		{"3", setWith("a", "b", "c"), false, 2},
		{"3", setWith("a", "b", "c"), false, 2},
		{"2", setWith("a", "b", "c", "d"), true, 2},
		{"2", setWith("a", "b", "c", "d"), false, 3},
	} {
		read = Loaded{Version: s.version, Set: s.set}
		if again, err := f.reload(true); err != nil || (again > 0) != s.again || got.count() != s.applied {
			t.Errorf("step %d: again in %v, applied %d times, %v; want again: %v, %d times", i, again, got.count(), err, s.again, s.applied)
		}
	}
}

// The rules of removed files end without another change.
func TestFiles_RemovesRulesAfterTheGrace(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a"), "x")
	load := func() (Loaded, error) {
		entries, err := os.ReadDir(dir)
		var names []string
		for _, e := range entries {
			names = append(names, e.Name())
		}
		return Loaded{Version: strings.Join(names, " "), Set: setWith(names...)}, err
	}
	var got applied
	f := NewFiles(dir, load, got.apply, slog.New(slog.DiscardHandler))
	running(t, func(ctx context.Context) {
		if err := f.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	fixture.Await(t, "the rules are active", func() bool { return f.Ready() == nil })
	began := time.Now()
	if err := os.Remove(filepath.Join(dir, "a")); err != nil {
		t.Fatal(err)
	}
	fixture.Await(t, "the rules are removed", func() bool { return got.count() == 2 })
	if took := time.Since(began); took < removalGrace {
		t.Errorf("the rules were removed after %v, want not before %v", took, removalGrace)
	}
}
