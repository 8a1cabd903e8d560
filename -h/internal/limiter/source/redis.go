package source

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/weir-dev/weir/go/internal/limiter/rules"
)

const (
	pollInterval = 2 * time.Second // finds changes that the subscription missed
	pollJitter   = 0.2             // fraction of the interval, in both directions, so that replicas do not poll in step
	minRetry     = 100 * time.Millisecond
	maxRetry     = 5 * time.Second
	// firstFetchTimeout is how long a Redis that does not respond delays the snapshot. If half of the timeout of a command is longer, the
	// delay is that half: redisclient waits so long for a reply.
	firstFetchTimeout = 2 * time.Second
)

// fromRedis is the origin of rules that Redis returned.
const fromRedis = "redis"

// ruleSets has the published rule sets of a limiter.
type ruleSets interface {
	// Current returns the published revision, or "" if no revision is published.
	Current(ctx context.Context) (string, error)
	// Load returns the encoded rule set of a revision.
	Load(ctx context.Context, revision string) (data []byte, found bool, err error)
	// Subscribe returns a channel that receives a value when Current may have changed. The channel closes when ctx is done or
	// the subscription ends.
	Subscribe(ctx context.Context) <-chan string
	// Channel returns the name of the channel, for messages.
	Channel() string
}

// Redis follows the rule sets that the operator publishes in Redis. It uses a snapshot until it has loaded rules from Redis.
type Redis struct {
	published ruleSets
	snapshot  *snapshot // nil if there is no snapshot, and after Redis returned rules: a snapshot never replaces those
	apply     Apply
	log       *slog.Logger

	mu          sync.Mutex
	revision    string // active, "" if there are no rules yet
	origin      string // of the active rules
	lastErr     error  // of the last fetch, nil if it succeeded
	snapshotErr error  // of the last read of the snapshot, nil if it succeeded or there is no snapshot
}

// NewRedis returns a source that applies the published rule sets, and before that the snapshot at path, unless path is empty.
func NewRedis(published ruleSets, path string, apply Apply, log *slog.Logger) *Redis {
	r := &Redis{published: published, apply: apply, log: log, lastErr: errNotFetched}
	if path != "" {
		r.snapshot = &snapshot{path: path}
	}
	return r
}

// Ready returns nil if there are rules, even if Redis becomes unavailable later, and the reason otherwise.
func (r *Redis) Ready() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.revision != "":
		return nil
	case r.snapshotErr != nil:
		return fmt.Errorf("no rules yet: %w; %w", r.lastErr, r.snapshotErr)
	default:
		return fmt.Errorf("no rules yet: %w", r.lastErr)
	}
}

// Origin describes where the active rules come from. It returns "" while there are no rules.
func (r *Redis) Origin() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.origin
}

// Rejected returns why the limiter does not enforce the published rule set, although it could read it. It is nil if the limiter enforces it,
// or cannot read it.
func (r *Redis) Rejected() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var e fetchError
	if errors.As(r.lastErr, &e) && e.rejected {
		return e.cause
	}
	return nil
}

// Run fetches rules until ctx is done or the subscription ends: after each publication, every two seconds in addition, and with
// exponential backoff after an error.
func (r *Redis) Run(ctx context.Context) {
	retry := minRetry
	next := func(err error) time.Duration {
		if err == nil {
			retry = minRetry
			return jitter(pollInterval)
		}
		wait := jitter(retry)
		retry = min(2*retry, maxRetry)
		return wait
	}
	timer := time.NewTimer(next(r.refreshFirst(ctx)))
	defer timer.Stop()
	// Subscribe after the first fetch, because it blocks on a Redis that does not respond. No change is lost: a new
	// subscription causes a fetch.
	updates := r.published.Subscribe(ctx)
	for {
		select {
		case <-ctx.Done():
			return
		case _, open := <-updates:
			if !open {
				return
			}
		case <-timer.C:
		}
		timer.Reset(next(r.refresh(ctx)))
	}
}

// refreshFirst is the first refresh, with a short timeout.
func (r *Redis) refreshFirst(ctx context.Context) error {
	short, cancel := context.WithTimeout(ctx, firstFetchTimeout)
	defer cancel()
	revision, err := r.fetch(short, "")
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return r.record(revision, err)
}

// refresh fetches the rules once.
func (r *Redis) refresh(ctx context.Context) error {
	revision, err := r.fetch(ctx, r.active())
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return r.record(revision, err)
}

// record stores and logs the result of a fetch. After an error, it uses the snapshot if Redis has not returned rules yet.
func (r *Redis) record(revision string, err error) error {
	previous := r.active()
	r.mu.Lock()
	lastErr := r.lastErr
	r.lastErr = err
	if err == nil {
		r.revision, r.origin, r.snapshotErr = revision, fromRedis, nil
	}
	r.mu.Unlock()
	switch {
	case err != nil && !sameProblem(err, lastErr):
		logUnchanged(r.log, slog.LevelWarn, "cannot fetch rules", err, previous)
	case err == nil && (revision != previous || lastErr != nil):
		r.log.Info("activated rules", "revision", revision, "previous", previous, "from", fromRedis)
	}
	if err == nil {
		r.snapshot = nil
	} else if r.snapshot != nil {
		r.useSnapshot()
	}
	return err
}

// useSnapshot activates the rules in the snapshot, unless they are active.
func (r *Redis) useSnapshot() {
	previous := r.active()
	revision, err := r.snapshot.install(r.apply)
	origin := "snapshot " + r.snapshot.path
	r.mu.Lock()
	lastErr := r.snapshotErr
	r.snapshotErr = err
	if revision != "" {
		r.revision, r.origin = revision, origin
	}
	r.mu.Unlock()
	if revision != "" {
		r.log.Warn("activated rules from the snapshot, until Redis returns rules", "revision", revision, "previous", previous, "from", origin)
	}
	if err == nil || (lastErr != nil && err.Error() == lastErr.Error()) {
		return
	}
	level := slog.LevelWarn
	if errors.As(err, new(missingSnapshotError)) { // for example before the operator has written it
		level = slog.LevelInfo
	}
	logUnchanged(r.log, level, "cannot use the snapshot", err, previous)
}

// fetch activates the published rule set, unless it is active, and returns the revision that is active afterwards.
func (r *Redis) fetch(ctx context.Context, active string) (string, error) {
	current, err := r.published.Current(ctx)
	if err != nil {
		return active, fetchError{problem: "Redis unreachable", cause: err}
	}
	if current == "" {
		return active, fetchError{problem: "no rule set published at " + r.published.Channel()}
	}
	if current == active {
		return active, nil
	}
	data, found, err := r.published.Load(ctx, current)
	if err != nil {
		return active, fetchError{problem: "Redis unreachable", cause: err}
	}
	if !found {
		return active, fetchError{problem: "rule set " + current + " is missing"}
	}
	if err := r.install(data, current); err != nil {
		return active, fetchError{problem: "rule set " + current + " rejected", cause: err, rejected: true}
	}
	return current, nil
}

// install applies a rule set whose content matches its revision.
func (r *Redis) install(data []byte, revision string) error {
	set, err := rules.DecodeAs(data, revision)
	if err != nil {
		return err
	}
	return r.apply(set, revision)
}

func (r *Redis) active() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.revision
}

var errNotFetched = errors.New("rules have not been fetched from Redis yet")

// fetchError is an error of fetch. The problem stays the same while the cause can change, for example its port number.
type fetchError struct {
	problem  string
	cause    error
	rejected bool // the rule set was read, and not applied
}

func (e fetchError) Error() string {
	if e.cause == nil {
		return e.problem
	}
	return e.problem + ": " + e.cause.Error()
}

func (e fetchError) Unwrap() error { return e.cause }

// sameProblem reports whether two errors of fetch have the same problem.
func sameProblem(a, b error) bool {
	var s, t fetchError
	return errors.As(a, &s) && errors.As(b, &t) && s.problem == t.problem
}

func jitter(d time.Duration) time.Duration {
	spread := time.Duration(pollJitter * float64(d))
	return d - spread + rand.N(2*spread)
}
