package publish

import (
	"context"
	"errors"
	"time"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/rules"
)

// Store is the Redis of one Limiter. Its errors may be a [StoreError].
type Store interface {
	// Inspect returns the version and the settings of Redis. It fails if Redis is too old.
	Inspect(ctx context.Context) (Redis, error)
	// LoadScripts loads the scripts into every primary that does not have them, and verifies their SHAs.
	LoadScripts(ctx context.Context) ([]Script, error)
	// Publish makes set the active rule set. It changes nothing if it is active already, unless rewrite is true.
	Publish(ctx context.Context, set rules.Encoded, rewrite bool) (changed bool, err error)
	// Active returns the active revision, "" if no rule set is active, and its sequence, 0 if that is missing.
	Active(ctx context.Context) (revision string, sequence int64, err error)
	// Archive returns a published rule set for [rules.Decode].
	Archive(ctx context.Context, revision string) (data []byte, found bool, err error)
	// Replicas returns the live replicas of the limiter.
	Replicas(ctx context.Context) ([]Replica, error)
	// Leave lets the active rule set expire. Pods that still use this Redis keep it until they are replaced.
	Leave(ctx context.Context) error
	// Clear deletes the rule sets and heartbeats.
	Clear(ctx context.Context) error
	// Close closes the connections.
	Close() error
}

// Redis is the result of an inspection.
type Redis struct {
	Primaries int
	// Version of the oldest primary; empty if Redis does not report it.
	Version string
	// Warnings about settings with which Redis may evict counters, in order.
	Warnings []string
	// WrongClocks are warnings about clocks that differ from that of the operator, in order.
	WrongClocks []string
}

// Script is a Lua script in Redis.
type Script struct {
	Name string
	SHA  string // SHA-1 of its text, in hex
	// LoadedOn is the number of primaries that have it.
	LoadedOn int
}

// Replica is a live limiter process, as its heartbeat reports it.
type Replica struct {
	ID       string
	Revision string // of the rule set that it enforces; empty before it has one
	// Mode in which it decides, for example [ModeLocal]; empty if it does not report one.
	Mode string
	// Since is when that mode began; zero if it is unknown.
	Since time.Time
	// Rejected is why it rejects the published rule set; empty if it does not.
	Rejected string
	// Crowded are policies whose new identifiers get no counter of their own, or soon will not.
	Crowded map[string]limiter.Crowding
	// Decided is a bitmap of the policies of Revision that have decided a request: bit i%8 of byte i/8 stands for policy i, in the order of their
	// names. It is nil if the replica does not report it.
	Decided []byte
	// Format is the highest format of rule sets that it reads, 0 if it does not report it.
	Format int
}

// ModeLocal is the mode of a replica that decides locally, without Redis.
const ModeLocal = "local"

// StoreError is an error with the condition reason that it is reported with.
type StoreError struct {
	error

	// Reason is a condition reason, for example v1alpha1.ReasonStoreUnreachable.
	Reason string
}

// NewStoreError adds a condition reason to err, which must not be nil.
func NewStoreError(reason string, err error) StoreError { return StoreError{err, reason} }

func (e StoreError) Unwrap() error { return e.error }

// storeErrorOf returns err with the reason that it has, or else with StoreUnreachable.
func storeErrorOf(err error) StoreError {
	if withReason, ok := errors.AsType[StoreError](err); ok {
		return StoreError{err, withReason.Reason}
	}
	return StoreError{err, v1alpha1.ReasonStoreUnreachable}
}
