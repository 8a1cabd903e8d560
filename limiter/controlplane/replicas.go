package controlplane

import (
	"cmp"
	"context"
	_ "embed" // for the scripts
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/redisclient"
)

//go:embed replicas.lua
var replicasSource string

func newReplicasScript() redisclient.Script {
	return redisclient.NewScript("replicas", replicasSource)
}

// Replicas returns the replicas that are alive by the clock of Redis, sorted by ID.
func (e *Exchange) Replicas(ctx context.Context) ([]Replica, error) {
	reply, err := e.client.Run(ctx, e.listReplicas, []string{e.replicasKey()}, maxReplicas, maxEntry, maxEntries).StringSlice()
	if err != nil {
		return nil, fmt.Errorf("list the replicas in %s: %w", e.replicasKey(), err)
	}
	replicas, err := decodeReplicas(reply)
	if err != nil {
		return nil, fmt.Errorf("list the replicas in %s: %w", e.replicasKey(), err)
	}
	return replicas, nil
}

// decodeReplicas reads the reply of replicas.lua. It ignores entries that are not valid heartbeats.
func decodeReplicas(reply []string) ([]Replica, error) {
	if len(reply)%2 != 1 {
		return nil, fmt.Errorf("got %d elements, want an odd number: the time, and an id and an entry per replica", len(reply))
	}
	now, err := strconv.ParseInt(reply[0], 10, 64)
	if err != nil {
		return nil, fmt.Errorf("parse the time: %w", err)
	}
	var live []Replica
	for pair := range slices.Chunk(reply[1:], 2) {
		var entry struct {
			Revision string `json:"revision"`
			Time     int64  `json:"time"` // milliseconds since the epoch
			Mode     string `json:"mode"`
			Since    int64  `json:"since"` // milliseconds since the epoch; 0 if unknown, as in the entries of older versions
			Rejected string `json:"rejected"`

			Crowded map[string]limiter.Crowding `json:"crowded"`
			Decided *string                     `json:"decided"`
			Format  int                         `json:"format"`
		}
		if json.Unmarshal([]byte(pair[1]), &entry) != nil || !alive(now, entry.Time) {
			continue
		}
		replica := Replica{ID: pair[0], Revision: entry.Revision, Mode: entry.Mode, Rejected: bounded(entry.Rejected), Format: entry.Format}
		if len(entry.Crowded) > 0 {
			replica.Crowded = boundedCrowded(entry.Crowded)
		}
		if entry.Decided != nil {
			replica.Decided = decodeDecided(*entry.Decided)
		}
		if entry.Since != 0 {
			replica.Since = time.UnixMilli(entry.Since).UTC()
		}
		live = append(live, replica)
	}
	slices.SortFunc(live, func(a, b Replica) int { return cmp.Compare(a.ID, b.ID) })
	return live, nil
}

// alive reports whether a replica with that latest heartbeat is alive now; both times are in milliseconds. A heartbeat is in
// the future if the clock of Redis stepped back, for example in a failover. It is valid for the same distance from now as
// one in the past.
func alive(now, heartbeat int64) bool {
	return max(now-heartbeat, heartbeat-now) <= int64(aliveFor/time.Millisecond)
}
