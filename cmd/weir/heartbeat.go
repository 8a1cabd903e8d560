package main

import (
	"context"
	"time"

	"github.com/weir-dev/weir/limiter/controlplane"
	"github.com/weir-dev/weir/limiter/failover"
	"github.com/weir-dev/weir/limiter/lease"
	"github.com/weir-dev/weir/limiter/local"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/source"
)

// The modes of a replica in its heartbeat.
const (
	modeRedis = "redis" // all counters are in Redis
	modeLocal = "local" // Redis is unavailable, or a part of it
)

// replicaHeartbeat registers a replica in Redis and reads the number of replicas.
type replicaHeartbeat struct {
	id       string
	exchange *controlplane.Exchange
	process  *process
	local    *local.Counters
	failover *failover.Store
	leases   *lease.Leases
	replicas *source.ReplicaCounter
	rejected func() error // why the replica rejects the published rules; nil if it does not
}

// beat writes the heartbeat of this replica and updates its share of the limits from the heartbeats of all replicas.
func (p *replicaHeartbeat) beat(ctx context.Context) error {
	r := controlplane.Replica{ID: p.id, Mode: modeRedis, Crowded: p.process.bound.Crowded(), Format: rules.Format}
	r.Revision, r.Decided = p.process.engine.Decided()
	if since, local := p.failover.LocalMode(); local {
		r.Mode, r.Since = modeLocal, since
	}
	if err := p.rejected(); err != nil {
		r.Rejected = err.Error()
	}
	if err := p.exchange.Heartbeat(ctx, r); err != nil {
		p.replicas.Failed()
		return err
	}
	replicas, err := p.exchange.Replicas(ctx)
	if err != nil {
		p.replicas.Failed()
		return err
	}
	ids := make([]string, len(replicas))
	for i := range replicas {
		ids[i] = replicas[i].ID
	}
	count, rank := p.replicas.Update(time.Now(), ids)
	p.local.Share(local.Peers{Replicas: count, Rank: rank})
	p.leases.Share(count)
	return nil
}

// deregister removes the heartbeat of this replica.
func (p *replicaHeartbeat) deregister(ctx context.Context) error { return p.exchange.Remove(ctx, p.id) }
