package redisstore

import (
	"cmp"
	"context"
	_ "embed" // for the scripts
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"
)

//go:embed replicas.lua
var replicasSource string

// Replicas returns the replicas that are alive, by the clock of Redis, sorted by id.
func (e *Exchange) Replicas(ctx context.Context) ([]Replica, error) {
	reply, err := e.client.run(ctx, e.list, []string{e.replicasKey()}).StringSlice()
	if err != nil {
		return nil, fmt.Errorf("list replicas at %s: %w", e.replicasKey(), err)
	}
	replicas, err := decodeReplicas(reply)
	if err != nil {
		return nil, fmt.Errorf("list replicas at %s: %w", e.replicasKey(), err)
	}
	return replicas, nil
}

// decodeReplicas reads the reply of replicas.lua. An entry that is not a heartbeat counts as no replica.
func decodeReplicas(reply []string) ([]Replica, error) {
	if len(reply)%2 != 1 {
		return nil, fmt.Errorf("reply of %d elements", len(reply))
	}
	now, err := strconv.ParseInt(reply[0], 10, 64)
	if err != nil {
		return nil, fmt.Errorf("time of the reply: %w", err)
	}
	var live []Replica
	for i := 1; i < len(reply); i += 2 {
		var entry struct {
			Revision string `json:"revision"`
			Time     int64  `json:"time"` // milliseconds since the epoch
			Mode     string `json:"mode"`
			Since    int64  `json:"since"` // the same; 0, as in the entries of older builds, for unknown
		}
		if json.Unmarshal([]byte(reply[i+1]), &entry) != nil || !alive(now, entry.Time) {
			continue
		}
		replica := Replica{ID: reply[i], Revision: entry.Revision, Mode: entry.Mode}
		if entry.Since != 0 {
			replica.Since = time.UnixMilli(entry.Since).UTC()
		}
		live = append(live, replica)
	}
	slices.SortFunc(live, func(a, b Replica) int { return cmp.Compare(a.ID, b.ID) })
	return live, nil
}

// alive says whether a beat at that time still counts now, both in milliseconds. A beat from the future was stamped
// before Redis's clock stepped back (a failover, say): it counts until it is as far off as a beat of the past may be.
func alive(now, beat int64) bool {
	return max(now-beat, beat-now) <= int64(aliveFor/time.Millisecond)
}
