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
	pollInterval = 2 * time.Second // for what the subscription missed
	pollJitter   = 0.2             // of the interval either way, so that replicas do not poll in step
	firstRetry   = 100 * time.Millisecond
	lastRetry    = 5 * time.Second
	// firstWord is how long a Redis that keeps silent holds up the snapshot.
	firstWord = 2 * time.Second
)

// fromRedis is the origin of rules that Redis gave.
const fromRedis = "redis"

// published is where rule sets are published.
type published interface {
	// Current returns the revision in force, "" for none.
	Current(ctx context.Context) (string, error)
	// Load returns the encoded Set of a revision.
	Load(ctx context.Context, revision string) (data []byte, found bool, err error)
	// Subscribe returns a channel that receives something whenever Current may have changed. It is closed when ctx is
	// done, or when nothing can be read any more.
	Subscribe(ctx context.Context) <-chan string
	// Channel names the place, for people.
	Channel() string
}

// Redis follows the rule set that an operator publishes in Redis. Until Redis gives it one, it makes do with a snapshot.
type Redis struct {
	published published
	snapshot  *snapshot // nil for none, and once Redis has given rules: a snapshot never replaces those
	apply     Apply
	log       *slog.Logger

	mu              sync.Mutex
	revision        string // in force, "" for none
	origin          string // of what is in force
	trouble         error  // of the last look, nil if it went well
	snapshotTrouble error  // of the last look at the snapshot, nil if it went well or there is none
}

// NewRedis returns a source that applies what is published there; and before that, what the file at snapshot holds,
// if that is not "".
func NewRedis(published published, path string, apply Apply, log *slog.Logger) *Redis {
	r := &Redis{published: published, apply: apply, log: log, trouble: errNotTried}
	if path != "" {
		r.snapshot = &snapshot{path: path}
	}
	return r
}

// Ready says why there are no rules yet; nil once there are, whatever happens to Redis afterwards.
func (r *Redis) Ready() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.revision != "":
		return nil
	case r.snapshotTrouble != nil:
		return fmt.Errorf("no rules yet: %w; %w", r.trouble, r.snapshotTrouble)
	default:
		return fmt.Errorf("no rules yet: %w", r.trouble)
	}
}

// Origin says where the rules in force are from, for people; "" while there are none.
func (r *Redis) Origin() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.origin
}

// Run follows until ctx is done or there is nothing to follow any more. It looks when something is published, every
// two seconds besides, and after trouble again and again, ever more slowly.
func (r *Redis) Run(ctx context.Context) {
	retry := firstRetry
	next := func(err error) time.Duration {
		if err == nil {
			retry = firstRetry
			return jitter(pollInterval)
		}
		wait := jitter(retry)
		retry = min(2*retry, lastRetry)
		return wait
	}
	look := time.NewTimer(next(r.begin(ctx)))
	defer look.Stop()
	// Behind the first look, for it waits for a Redis that keeps silent. Nothing is missed: it asks for a look of its own.
	updates := r.published.Subscribe(ctx)
	for {
		select {
		case <-ctx.Done():
			return
		case _, open := <-updates:
			if !open {
				return
			}
		case <-look.C:
		}
		look.Reset(next(r.follow(ctx)))
	}
}

// begin is the first look, which is soon over.
func (r *Redis) begin(ctx context.Context) error {
	soon, cancel := context.WithTimeout(ctx, firstWord)
	defer cancel()
	revision, err := r.fetch(soon, "")
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return r.note(revision, err)
}

// follow looks once.
func (r *Redis) follow(ctx context.Context) error {
	revision, err := r.fetch(ctx, r.inForce())
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return r.note(revision, err)
}

// note remembers and logs how a look went. Where it gave nothing, the snapshot has to do.
func (r *Redis) note(revision string, err error) error {
	before := r.inForce()
	r.mu.Lock()
	lastTrouble := r.trouble
	r.trouble = err
	if err == nil {
		r.revision, r.origin, r.snapshotTrouble = revision, fromRedis, nil
	}
	r.mu.Unlock()
	switch {
	case err != nil && !sameKind(err, lastTrouble):
		r.log.Warn("rules cannot be fetched", "error", err, "inForce", before)
	case err == nil && (revision != before || lastTrouble != nil):
		r.log.Info("rules in force", "revision", revision, "before", before, "from", fromRedis)
	}
	if err == nil {
		r.snapshot = nil
	} else if r.snapshot != nil {
		r.makeDo()
	}
	return err
}

// makeDo brings the snapshot in force, unless it is already.
func (r *Redis) makeDo() {
	before := r.inForce()
	revision, err := r.snapshot.install(r.apply)
	origin := "snapshot " + r.snapshot.path
	r.mu.Lock()
	lastTrouble := r.snapshotTrouble
	r.snapshotTrouble = err
	if revision != "" {
		r.revision, r.origin = revision, origin
	}
	r.mu.Unlock()
	if revision != "" {
		r.log.Warn("rules in force until Redis gives others", "revision", revision, "before", before, "from", origin)
	}
	if err == nil || (lastTrouble != nil && err.Error() == lastTrouble.Error()) {
		return
	}
	level := slog.LevelWarn
	if errors.As(err, new(missing)) { // as on a cluster whose operator has not written it yet
		level = slog.LevelInfo
	}
	r.log.Log(context.Background(), level, "no rules from the snapshot", "error", err, "inForce", before)
}

// fetch brings what is published in force, unless it is already, and returns the revision that is in force then.
func (r *Redis) fetch(ctx context.Context, inForce string) (string, error) {
	current, err := r.published.Current(ctx)
	if err != nil {
		return inForce, trouble{"Redis unreachable", err}
	}
	if current == "" {
		return inForce, trouble{"no rule set published at " + r.published.Channel(), nil}
	}
	if current == inForce {
		return inForce, nil
	}
	data, found, err := r.published.Load(ctx, current)
	if err != nil {
		return inForce, trouble{"Redis unreachable", err}
	}
	if !found {
		return inForce, trouble{"rule set " + current + " is missing", nil}
	}
	if err := r.install(data, current); err != nil {
		return inForce, trouble{"rule set " + current + " refused", err}
	}
	return current, nil
}

// install applies a Set that is what its name says.
func (r *Redis) install(data []byte, revision string) error {
	set, err := rules.DecodeAs(data, revision)
	if err != nil {
		return err
	}
	return r.apply(set, revision)
}

func (r *Redis) inForce() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.revision
}

var errNotTried = errors.New("Redis has not been asked yet")

// trouble is an error with the part of its text that stays the same while the same is wrong: the cause may speak of
// another port with every try.
type trouble struct {
	what  string
	cause error
}

func (t trouble) Error() string {
	if t.cause == nil {
		return t.what
	}
	return t.what + ": " + t.cause.Error()
}

func (t trouble) Unwrap() error { return t.cause }

// sameKind says whether two errors of fetch have the same thing wrong.
func sameKind(a, b error) bool {
	var s, t trouble
	return errors.As(a, &s) && errors.As(b, &t) && s.what == t.what
}

func jitter(d time.Duration) time.Duration {
	return d + time.Duration((2*rand.Float64()-1)*pollJitter*float64(d))
}
