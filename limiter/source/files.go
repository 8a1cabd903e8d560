package source

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/weir-dev/weir/limiter/rules"
)

const (
	// settle is how long a directory must be quiet before it is read: an editor's save and a ConfigMap's update are
	// several events.
	settle = 100 * time.Millisecond
	// safetyPoll finds what the notifications miss: network file systems, a directory that was replaced.
	safetyPoll = 5 * time.Second
)

// Files follows a directory of policies.
type Files struct {
	dir   string
	load  Load
	apply Apply
	log   *slog.Logger

	mu       sync.Mutex
	revision string   // in force, "" for none
	trouble  string   // why the last reading failed, "" if it did not
	problems []string // of the last reading
}

// Load reads a directory: the Set that its policies make, and what is wrong with those that it is not made of. An error
// says that the directory as a whole cannot be used.
type Load func() (set rules.Set, problems []string, err error)

// NewFiles returns a source that applies what load makes of dir.
func NewFiles(dir string, load Load, apply Apply, log *slog.Logger) *Files {
	return &Files{dir: dir, load: load, apply: apply, log: log}
}

// Ready says why there are no rules yet; nil once there are.
func (f *Files) Ready() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.revision != "" {
		return nil
	}
	if f.trouble == "" {
		return fmt.Errorf("no rules yet: %s has not been read", f.dir)
	}
	return fmt.Errorf("no rules yet: %s", f.trouble)
}

// Origin says where the rules are from, for people.
func (f *Files) Origin() string { return "directory " + f.dir }

// Reload reads the directory now. The error, which is also logged when it is news, leaves in force what was.
func (f *Files) Reload() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	set, problems, err := f.load()
	if err == nil {
		err = f.install(set)
	}
	if err != nil {
		err = fmt.Errorf("read policies in %s: %w", f.dir, err)
		if err.Error() != f.trouble {
			f.log.Warn("policies cannot be read", "error", err, "inForce", f.revision)
		}
		f.trouble = err.Error()
		return err
	}
	f.trouble = ""
	if !slices.Equal(problems, f.problems) {
		for _, p := range problems {
			f.log.Warn("not all policies can be read", "problem", p)
		}
	}
	f.problems = problems
	return nil
}

// install applies set unless it is in force.
func (f *Files) install(set rules.Set) error {
	_, revision := rules.Encode(set)
	if revision == f.revision {
		return nil
	}
	if err := f.apply(set, revision); err != nil {
		return err
	}
	f.log.Info("rules in force", "revision", revision, "before", f.revision, "policies", len(set.Rules))
	f.revision = revision
	return nil
}

// Run reads the directory now and whenever it changes, until ctx is done. The error is that of a system that cannot
// watch files at all.
func (f *Files) Run(ctx context.Context) error {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("watch %s: %w", f.dir, err)
	}
	follow := errors.Join(f.follow(ctx, watcher), watcher.Close())
	if follow != nil {
		return fmt.Errorf("watch %s: %w", f.dir, follow)
	}
	return nil
}

func (f *Files) follow(ctx context.Context, watcher *fsnotify.Watcher) error {
	poll := time.NewTicker(safetyPoll)
	defer poll.Stop()
	read := time.NewTimer(0)
	defer read.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-watcher.Events:
			read.Reset(settle)
			continue
		case err := <-watcher.Errors: // an overflow of events, say: what was missed is read below
			f.log.Warn("files may have changed unnoticed; reading them again", "directory", f.dir, "error", err)
		case <-poll.C:
		case <-read.C:
		}
		// The directory itself is watched, not its files: they are renamed and replaced. Watching it again is free,
		// and finds one that was not there before. Reload says so if it is still missing.
		_ = watcher.Add(f.dir)
		_ = f.Reload() // logged there
	}
}
