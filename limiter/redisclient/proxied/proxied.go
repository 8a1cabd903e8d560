// Package proxied finds out whether a server that reports the nodes of a Redis Cluster is a proxy in front of them. Then the nodes may be reachable only
// for the proxy.
package proxied

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/redis/go-redis/v9"
)

// keys is the number of keys that are read. A node with half of the slots has all of them with a probability of 1 in 2⁶⁴.
const keys = 64

// ExecutesAllSlots reports whether a server executes commands of all slots although several primaries have them: a node would reply MOVED. slotRanges is
// the reply to CLUSTER SLOTS. Without permission to read the keys, the result is false.
func ExecutesAllSlots(ctx context.Context, server *redis.Client, slotRanges []any) bool {
	if primaries(slotRanges) < 2 {
		return false
	}
	pipe := server.Pipeline()
	for i := range keys {
		pipe.Get(ctx, "weir-check-"+strconv.Itoa(i))
	}
	cmds, _ := pipe.Exec(ctx) // each command has its error
	return len(cmds) == keys && !slices.ContainsFunc(cmds, func(cmd redis.Cmder) bool { return cmd.Err() != nil && !errors.Is(cmd.Err(), redis.Nil) })
}

// primaries counts the IDs of the primaries: a range has the first and the last slot, and then the host, port and ID of its primary and of each replica.
func primaries(slotRanges []any) int {
	ids := map[string]bool{}
	for _, entry := range slotRanges {
		if fields, ok := entry.([]any); ok && len(fields) >= 3 {
			if node, ok := fields[2].([]any); ok && len(node) >= 3 {
				ids[fmt.Sprint(node[2])] = true
			}
		}
	}
	return len(ids)
}
