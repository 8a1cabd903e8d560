package ruleset

import (
	"context"
	"time"
)

// Store is what the controller needs of Redis.
type Store interface {
	// LoadScripts makes every primary hold every script, checks that their SHAs are ours, and does nothing where
	// all is well.
	LoadScripts(ctx context.Context) error
	// Publish makes data the rule set in force, and does nothing if it is already.
	Publish(ctx context.Context, revision string, data []byte) (changed bool, err error)
	// Load returns a rule set that was published.
	Load(ctx context.Context, revision string) (data []byte, found bool, err error)
	// Replicas returns the limiter's replicas that are alive.
	Replicas(ctx context.Context) ([]Replica, error)
}

// Script names a Lua script by content.
type Script struct {
	Name string
	SHA  string // SHA-1 of its text, in hex
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
