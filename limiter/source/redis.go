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
)

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

// Redis follows the rule set that an operator publishes in Redis.
type Redis struct {
	published published
	apply     Apply
	log       *slog.Logger

	mu       sync.Mutex
	revision string // in force, "" for none
	trouble  error  // of the last look, nil if it went well
}

// NewRedis returns a source that applies what is published there.
func NewRedis(published published, apply Apply, log *slog.Logger) *Redis {
	return &Redis{published: published, apply: apply, log: log, trouble: errNotTried}
}

// Ready says why there are no rules yet; nil once there are, whatever happens to Redis afterwards.
func (r *Redis) Ready() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.revision != "" {
		return nil
	}
	return fmt.Errorf("no rules yet: %w", r.trouble)
}

// Run follows until ctx is done or there is nothing to follow any more. It looks when something is published, every
// two seconds besides, and after trouble again and again, ever more slowly.
func (r *Redis) Run(ctx context.Context) {
	updates := r.published.Subscribe(ctx)
	retry := firstRetry
	look := time.NewTimer(0)
	defer look.Stop()
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
		if err := r.follow(ctx); err != nil {
			look.Reset(jitter(retry))
			retry = min(2*retry, lastRetry)
			continue
		}
		retry = firstRetry
		look.Reset(jitter(pollInterval))
	}
}

// follow looks once, and remembers and logs how it went.
func (r *Redis) follow(ctx context.Context) error {
	before := r.inForce()
	revision, err := r.fetch(ctx, before)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	r.mu.Lock()
	lastTrouble := r.trouble
	r.revision, r.trouble = revision, err
	r.mu.Unlock()
	switch {
	case err != nil && !sameKind(err, lastTrouble):
		r.log.Warn("rules cannot be fetched", "error", err, "inForce", before)
	case err == nil && (revision != before || lastTrouble != nil):
		r.log.Info("rules in force", "revision", revision, "before", before)
	}
	return err
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
