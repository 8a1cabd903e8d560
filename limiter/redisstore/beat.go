package redisstore

import (
	"context"
	_ "embed" // for the scripts
	"fmt"
	"time"
)

//go:embed beat.lua
var beatSource string

// Replica is one running limiter process, as its heartbeat tells.
type Replica struct {
	// ID is unique among the replicas of a limiter and stays for the life of the process.
	ID string
	// Revision of the Set it enforces; empty before it has one.
	Revision string
	// Mode it decides in: "redis", or "local" while Redis is away.
	Mode string
	// Since when it is in that mode, by its own clock, in whole milliseconds; zero if that is not known.
	Since time.Time
}

// Beat says that r is alive now, by the clock of Redis.
func (e *Exchange) Beat(ctx context.Context, r Replica) error {
	var since int64
	if !r.Since.IsZero() {
		since = r.Since.UnixMilli()
	}
	err := e.client.run(ctx, e.beat, []string{e.replicasKey()}, r.ID, r.Revision, r.Mode, forgottenAfter.Milliseconds(), since).Err()
	if err != nil {
		return fmt.Errorf("beat of replica %s: %w", r.ID, err)
	}
	return nil
}

// Forget says that replica id is gone: it stops counting at once instead of after its last beat has aged.
func (e *Exchange) Forget(ctx context.Context, id string) error {
	if err := e.client.rdb.HDel(ctx, e.replicasKey(), id).Err(); err != nil {
		return fmt.Errorf("forget replica %s: %w", id, err)
	}
	return nil
}
