package main

import (
	"context"
	"time"

	"github.com/weir-dev/weir/limiter/controlplane"
	"github.com/weir-dev/weir/limiter/failover"
	"github.com/weir-dev/weir/limiter/local"
	"github.com/weir-dev/weir/limiter/source"
)

// The modes of a replica, as its heartbeat tells them.
const (
	modeRedis = "redis" // it decides on the counters in Redis
	modeLocal = "local" // they are away, or some of them
)

// presence is what a replica tells Redis of itself, and learns there of the others.
type presence struct {
	id       string
	exchange *controlplane.Exchange
	process  *process
	local    *local.Counters
	failover *failover.Store
	census   *source.ReplicaCounter
}

// beat says that the replica lives, and hears who else does.
func (p *presence) beat(ctx context.Context) error {
	r := controlplane.Replica{ID: p.id, Revision: p.process.revision(), Mode: modeRedis}
	if since, local := p.failover.LocalMode(); local {
		r.Mode, r.Since = modeLocal, since
	}
	if err := p.exchange.Heartbeat(ctx, r); err != nil {
		p.census.Missed()
		return err
	}
	replicas, err := p.exchange.Replicas(ctx)
	if err != nil {
		p.census.Missed()
		return err
	}
	ids := make([]string, len(replicas))
	for i := range replicas {
		ids[i] = replicas[i].ID
	}
	count, rank := p.census.Heard(time.Now(), ids)
	p.local.Share(local.Peers{Replicas: count, Rank: rank})
	return nil
}

func (p *presence) forget(ctx context.Context) error { return p.exchange.Remove(ctx, p.id) }
