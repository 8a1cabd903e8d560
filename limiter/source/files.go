package source

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/weir-dev/weir/limiter/rules"
)

const (
	// debounce is how long a directory must be unchanged before it is read: an editor and a ConfigMap update cause several
	// events each.
	debounce = 100 * time.Millisecond
	// pollFiles is the interval of reads without an event. They find changes on network file systems and a replaced directory.
	pollFiles = 5 * time.Second
	// removalGrace is how long policies must be missing from the files before their rules are removed. A program that truncates a file and
	// writes it again, or deletes it and creates it, must not lift limits.
	removalGrace = 5 * time.Second
)

// Files watches a directory of policies.
type Files struct {
	dir   string
	load  Load
	apply Apply
	log   *slog.Logger

	mu       sync.Mutex
	revision string               // active, "" if there are no rules yet
	version  string               // of the active rules
	active   rules.Set            // with revision
	seen     string               // the version that a poll has found
	lost     map[string]time.Time // policies in active that are missing from the files, and since when
	lastErr  string               // error of the last read, "" if it succeeded
	problems []Problem            // of the last read
	kept     []string             // by the last read
}

// Load compiles the policies in a directory. An error means that the whole directory cannot be used.
type Load func() (Loaded, error)

// Loaded is the result of a Load.
type Loaded struct {
	// Version identifies what was read. A version that was applied is not applied again. It may be empty.
	Version string
	Set     rules.Set
	// Problems describe the invalid policies.
	Problems []Problem
	// Kept lists the policies in Set that are enforced in their previous version, because the current version is invalid.
	Kept []string
}

// Problem is one reason why a policy is invalid.
type Problem struct {
	File string
	Line int
	// Policy is empty if the file is invalid.
	Policy string
	// Field is empty if the problem concerns the whole object.
	Field   string
	Message string
}

func (p Problem) log(log *slog.Logger) {
	message := "invalid policy"
	attributes := []any{"file", p.File, "line", p.Line}
	if p.Policy == "" {
		message = "invalid policy file"
	} else {
		attributes = append(attributes, "policy", p.Policy)
	}
	if p.Field != "" {
		attributes = append(attributes, "field", p.Field)
	}
	log.Warn(message, append(attributes, "problem", p.Message)...)
}

// NewFiles returns a source that applies the rule sets that load reads from dir.
func NewFiles(dir string, load Load, apply Apply, log *slog.Logger) *Files {
	return &Files{dir: dir, load: load, apply: apply, log: log}
}

// Ready returns nil if there are rules, and the reason otherwise.
func (f *Files) Ready() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.revision != "" {
		return nil
	}
	if f.lastErr == "" {
		return fmt.Errorf("no rules yet: %s has not been read", f.dir)
	}
	return fmt.Errorf("no rules yet: %s", f.lastErr)
}

// Origin describes where the rules come from.
func (f *Files) Origin() string { return "directory " + f.dir }

// Reload reads the directory now. On an error, the active rules stay active. A new error is also logged. The active rules also stay if policies of
// them are missing from the files, until they have been missing for removalGrace.
func (f *Files) Reload() error {
	_, err := f.reload(false)
	return err
}

// reload is Reload. If again is not 0, the caller must read the directory again after that time. After a poll, no event shows that a file is being
// written, so that a version must be found twice.
func (f *Files) reload(polled bool) (again time.Duration, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	loaded, err := f.load()
	if err == nil {
		if polled && f.revision != "" && loaded.Version != f.version && loaded.Version != f.seen {
			f.seen = loaded.Version
			return debounce, nil
		}
		f.seen = ""
		if again = f.hold(&loaded); again > 0 {
			f.lastErr = ""
			return again, nil
		}
		err = f.install(loaded)
	}
	if err != nil {
		err = fmt.Errorf("read policies in %s: %w", f.dir, err)
		if err.Error() != f.lastErr {
			logUnchanged(f.log, slog.LevelWarn, "cannot read the policies", err, f.revision)
		}
		f.lastErr = err.Error()
		return 0, err
	}
	f.lastErr = ""
	if !slices.Equal(loaded.Problems, f.problems) || !slices.Equal(loaded.Kept, f.kept) {
		for _, p := range loaded.Problems {
			p.log(f.log)
		}
		if len(loaded.Kept) > 0 {
			f.log.Warn("previous version stays enforced", "policies", abbreviate(loaded.Kept))
		}
	}
	f.problems, f.kept = loaded.Problems, loaded.Kept
	return 0, nil
}

// hold returns for how long the active rules stay because policies of them are missing in loaded. It returns 0 if loaded can be installed.
func (f *Files) hold(loaded *Loaded) (left time.Duration) {
	now, isNew := time.Now(), false
	lost := make(map[string]time.Time)
	policies := missing(f.active, loaded.Set)
	for _, policy := range policies {
		since, ok := f.lost[policy]
		if !ok {
			since, isNew = now, true
		}
		lost[policy] = since
		left = max(left, removalGrace-now.Sub(since))
	}
	f.lost = lost
	if isNew {
		f.log.Warn("policies are missing from the files, which may be incomplete; the active rules stay for now",
			"missing", abbreviate(policies), "for", removalGrace, "directory", f.dir, "active", f.revision)
	}
	return left
}

// missing returns the policies of before without a rule in set.
func missing(previous, set rules.Set) (policies []string) {
	present := make(map[string]bool, len(set.Rules))
	for i := range set.Rules {
		present[set.Rules[i].Policy] = true
	}
	for i := range previous.Rules {
		if policy := previous.Rules[i].Policy; !present[policy] {
			present[policy] = true
			policies = append(policies, policy)
		}
	}
	return policies
}

// abbreviate lists at most ten policies, and the number of the remaining ones.
func abbreviate(policies []string) string {
	const shown = 10
	if more := len(policies) - shown; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(policies[:shown], ", "), more)
	}
	return strings.Join(policies, ", ")
}

// logUnchanged logs an error that leaves the rules unchanged. active is their revision, "" if there are no rules yet.
func logUnchanged(log *slog.Logger, level slog.Level, message string, err error, active string) {
	if active == "" {
		log.Log(context.Background(), level, message+"; no rules yet", "error", err)
		return
	}
	log.Log(context.Background(), level, message+"; the active revision stays", "error", err, "active", active)
}

// install applies the rules of loaded unless they are active.
func (f *Files) install(loaded Loaded) error {
	if loaded.Version != "" && loaded.Version == f.version {
		return nil
	}
	_, revision := rules.Encode(loaded.Set)
	if revision != f.revision {
		if err := f.apply(loaded.Set, revision); err != nil {
			return err
		}
		f.log.Info("activated rules", "revision", revision, "previous", f.revision, "policies", len(loaded.Set.Rules))
		f.revision, f.active = revision, loaded.Set
	}
	f.version = loaded.Version
	return nil
}

// Run reads the directory now and after each change, until ctx is done. It fails only if the system cannot watch files.
func (f *Files) Run(ctx context.Context) error {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("watch %s: %w", f.dir, err)
	}
	if err := errors.Join(f.watch(ctx, watcher), watcher.Close()); err != nil {
		return fmt.Errorf("watch %s: %w", f.dir, err)
	}
	return nil
}

func (f *Files) watch(ctx context.Context, watcher *fsnotify.Watcher) error {
	poll := time.NewTicker(pollFiles)
	defer poll.Stop()
	read := time.NewTimer(0)
	defer read.Stop()
	var event time.Time // the last one
	for {
		polled := false
		select {
		case <-ctx.Done():
			return nil
		case <-watcher.Events:
			event = time.Now()
			read.Reset(debounce)
			continue
		case err := <-watcher.Errors: // for example an overflow of events; the read below finds the missed changes
			f.log.Warn("file notifications may be lost; reading the directory again", "directory", f.dir, "error", err)
		case <-poll.C:
			if time.Since(event) < debounce { // read follows
				continue
			}
			polled = true
		case <-read.C:
		}
		// Watch the directory, not its files, because files are renamed and replaced. Adding it again costs nothing, and
		// succeeds for a directory that did not exist before. Reload reports a directory that is still missing.
		_ = watcher.Add(f.dir)
		if again, _ := f.reload(polled); again > 0 { // it logs its errors
			read.Reset(again)
		}
	}
}
