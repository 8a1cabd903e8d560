package ruleset

import (
	"context"
	"errors"
	"time"

	"github.com/weir-dev/weir/api/v1alpha1"
)

// Store is what the controller needs of the Redis of one Limiter. Its errors may be a [StoreError].
type Store interface {
	// Inspect says what Redis is. It is an error if it is too old.
	Inspect(ctx context.Context) (Redis, error)
	// LoadScripts makes every primary hold every script, checks that their SHAs are ours, and does nothing where
	// all is well.
	LoadScripts(ctx context.Context) ([]Script, error)
	// Publish makes data the rule set in force, and does nothing if it is already.
	Publish(ctx context.Context, revision string, data []byte) (changed bool, err error)
	// Load returns a rule set that was published.
	Load(ctx context.Context, revision string) (data []byte, found bool, err error)
	// Replicas returns the limiter's replicas that are alive.
	Replicas(ctx context.Context) ([]Replica, error)
	// Leave has the rule set in force expire in a while, for who still looks for it here.
	Leave(ctx context.Context) error
	// Clear removes rules and heartbeats.
	Clear(ctx context.Context) error
	// Close gives the connections up.
	Close() error
}

// Redis is what there is to know of it.
type Redis struct {
	Primaries int
	// Version of the oldest primary; empty where Redis does not tell.
	Version string
	// Warnings, for people, of settings by which it may drop counters, in order.
	Warnings []string
}

// Script names a Lua script by content.
type Script struct {
	Name string
	SHA  string // SHA-1 of its text, in hex
	// LoadedOn is how many primaries hold it.
	LoadedOn int
}

// Replica is a limiter process that is alive.
type Replica struct {
	ID       string
	Revision string // of the rule set it enforces; empty before it has one
	// Mode it decides in, [ModeLocal] or another, and since when; zero if that is not known.
	Mode  string
	Since time.Time
}

// ModeLocal is the mode of a replica that decides without Redis.
const ModeLocal = "local"

// StoreError is why Redis cannot be used, with the reason of a condition.
type StoreError struct {
	error

	// Reason is one of v1alpha1's: ReasonStoreUnreachable, …
	Reason string
}

// NewStoreError is err, which is not nil, for that reason.
func NewStoreError(reason string, err error) StoreError { return StoreError{err, reason} }

func (e StoreError) Unwrap() error { return e.error }

// storeErrorOf is err, which is not nil.
func storeErrorOf(err error) StoreError {
	if t, is := errors.AsType[StoreError](err); is {
		return StoreError{err, t.Reason}
	}
	return StoreError{err, v1alpha1.ReasonStoreUnreachable}
}
