// Package source keeps the rules of a running limiter up to date, from Redis, where the operator publishes them, or from a
// directory. While Redis is unavailable, a limiter uses a snapshot, which is a file, if it is newer than its rules. The package also sends the
// heartbeats of the limiter to Redis.
//
// A source calls its [Apply] or [ApplyShards] with each new rule set, in order and from one goroutine. It rejects an invalid rule set: the
// previous one stays active, and the source logs the reason once.
package source

import "github.com/weir-dev/weir/limiter/rules"

// Apply makes set the active rule set. An error rejects it.
type Apply func(set rules.Set, revision string) error

// ApplyShards is an Apply for a set in shards. The set shares the shards that have not changed with the previous one.
type ApplyShards func(set *rules.Sharded, revision string) error
