package source

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/weir-dev/weir/limiter/rules"
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
	// Load returns the manifest of a revision, or its whole rule set, see [rules.DecodeManifest]. found is false if it does not exist, or is empty.
	Load(ctx context.Context, revision string) (data []byte, found bool, err error)
	// Shards returns the encoded shards by their hashes, as far as they exist.
	Shards(ctx context.Context, parts []rules.Part) (map[string][]byte, error)
	// Subscribe returns a channel that receives a value when Current may have changed. The channel closes when ctx is done or
	// the subscription ends.
	Subscribe(ctx context.Context) <-chan string
	// Channel returns the name of the channel, for messages.
	Channel() string
}

// Redis follows the rule sets that the operator publishes in Redis. It uses a snapshot until it has loaded rules from Redis, and afterwards while
// it cannot fetch rules, if the rules in the snapshot are newer than the active ones.
type Redis struct {
	published ruleSets
	snapshot  *snapshot // nil if there is no snapshot
	apply     ApplyShards
	log       *slog.Logger
	verify    bool           // the sequence of the active revision in Redis: it may have been published again
	followed  bool           // Redis has returned rules: a snapshot replaces them only if it is newer
	held      *rules.Sharded // the last rule set that Redis has returned; nil before

	mu          sync.Mutex
	version     version // active
	origin      string  // of the active rules
	lastErr     error   // of the last fetch, nil if it succeeded
	snapshotErr error   // of the last read of the snapshot, nil if it succeeded or there is no snapshot
}

// NewRedis returns a source that applies the published rule sets, and before that the snapshot at path, unless path is empty.
func NewRedis(published ruleSets, path string, apply ApplyShards, log *slog.Logger) *Redis {
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
	case r.version.revision != "":
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
			r.verify = true
		case <-timer.C:
		}
		timer.Reset(next(r.refresh(ctx)))
	}
}

// refreshFirst is the first refresh, with a short timeout.
func (r *Redis) refreshFirst(ctx context.Context) error {
	short, cancel := context.WithTimeout(ctx, firstFetchTimeout)
	defer cancel()
	fetched, err := r.fetch(short, version{})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return r.record(fetched, err)
}

// refresh fetches the rules once.
func (r *Redis) refresh(ctx context.Context) error {
	fetched, err := r.fetch(ctx, r.active())
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return r.record(fetched, err)
}

// record stores and logs the result of a fetch. After an error, it uses the snapshot.
func (r *Redis) record(fetched version, err error) error {
	previous := r.active()
	r.mu.Lock()
	lastErr := r.lastErr
	r.lastErr = err
	if err == nil {
		r.version, r.origin, r.snapshotErr = fetched, fromRedis, nil
	}
	r.mu.Unlock()
	switch {
	case err != nil && !sameProblem(err, lastErr):
		logUnchanged(r.log, slog.LevelWarn, "cannot fetch rules", err, previous.revision)
	case err == nil && (fetched.revision != previous.revision || lastErr != nil):
		r.log.Info("activated rules", "revision", fetched.revision, "previous", previous.revision, "from", fromRedis)
	}
	r.verify = err != nil
	if err == nil {
		r.followed = true
	} else if r.snapshot != nil {
		r.useSnapshot()
	}
	return err
}

// useSnapshot activates the rules in the snapshot, unless they are active, or not newer than rules that Redis has returned.
func (r *Redis) useSnapshot() {
	previous := r.active()
	found, err := r.snapshot.install(r.apply, func(found version) bool {
		if r.followed {
			return previous.olderThan(found)
		}
		return !found.olderThan(previous)
	})
	revision := found.revision
	origin := "snapshot " + r.snapshot.path
	r.mu.Lock()
	lastErr := r.snapshotErr
	r.snapshotErr = err
	if revision != "" {
		r.version, r.origin = found, origin
	}
	r.mu.Unlock()
	if revision != "" {
		message := "activated rules from the snapshot, until Redis returns rules"
		if r.followed {
			message = "activated newer rules from the snapshot, until Redis returns rules that are not older"
		}
		r.log.Warn(message, "revision", revision, "sequence", found.sequence, "previous", previous.revision, "from", origin)
	}
	if err == nil || (lastErr != nil && err.Error() == lastErr.Error()) {
		return
	}
	level := slog.LevelWarn
	if errors.As(err, new(missingSnapshotError)) { // for example before the operator has written it
		level = slog.LevelInfo
	}
	logUnchanged(r.log, level, "cannot use the snapshot", err, previous.revision)
}

// fetch activates the published rule set, unless it is active or older than the active one, and returns the version that is active afterwards.
func (r *Redis) fetch(ctx context.Context, active version) (version, error) {
	current, err := r.published.Current(ctx)
	if err != nil {
		return active, fetchError{problem: "Redis unreachable", cause: err}
	}
	if current == "" {
		return active, fetchError{problem: "no rule set published at " + r.published.Channel()}
	}
	if current == active.revision && !r.verify {
		return active, nil
	}
	data, found, err := r.published.Load(ctx, current)
	if err != nil {
		return active, fetchError{problem: "Redis unreachable", cause: err}
	}
	if current == active.revision {
		return republished(active, data), nil
	}
	if !found {
		return active, fetchError{problem: "rule set " + current + " rejected", cause: errNoData, rejected: true}
	}
	published := version{revision: current}
	published.sequence, err = rules.Sequence(data)
	if err == nil && published.olderThan(active) {
		return active, fetchError{
			problem:  "rule set " + current + " in Redis is older than the active one, until the operator publishes newer rules",
			cause:    fmt.Errorf("its sequence is %d, and that of %s is %d", published.sequence, active.revision, active.sequence),
			rejected: true,
		}
	}
	var set *rules.Sharded
	if err == nil {
		set, err = r.complete(ctx, current, data)
	}
	if err == nil {
		err = r.apply(set, current)
	}
	switch {
	case errors.As(err, new(fetchError)):
		return active, err
	case err != nil:
		return active, fetchError{problem: "rule set " + current + " rejected", cause: err, rejected: true}
	}
	r.held = set
	return published, nil
}

// complete reads the shards of a manifest that the source does not hold, and returns the rule set.
func (r *Redis) complete(ctx context.Context, revision string, data []byte) (*rules.Sharded, error) {
	manifest, err := rules.DecodeManifest(data)
	if err != nil {
		return nil, err
	}
	if manifest.Revision != revision {
		return nil, fmt.Errorf("the revision of the data is %s", manifest.Revision)
	}
	shards, err := r.published.Shards(ctx, manifest.Lacking(r.held))
	if err != nil {
		return nil, fetchError{problem: "Redis unreachable", cause: err}
	}
	return manifest.Assemble(r.held, shards)
}

// republished returns the active version with the sequence of data in Redis, if that is higher: the operator can have published the rules again.
// Data that is missing or damaged changes nothing, because the rules are active.
func republished(active version, data []byte) version {
	if sequence, err := rules.Sequence(data); err == nil && sequence > active.sequence {
		active.sequence = sequence
	}
	return active
}

func (r *Redis) active() version {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.version
}

// errNoData makes the operator write the rule set again: it does not notice that a manifest is empty.
var errNoData = errors.New("its key does not exist, or is empty")

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
