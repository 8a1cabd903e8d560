package simulate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/denials"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/failover"
	"github.com/weir-dev/weir/limiter/lease"
	"github.com/weir-dev/weir/limiter/local"
	"github.com/weir-dev/weir/limiter/memstore"
	"github.com/weir-dev/weir/limiter/rules"
	"github.com/weir-dev/weir/limiter/rules/matching"
	"github.com/weir-dev/weir/limiter/store"
)

const (
	// localBytes is the memory of the local counters of a replica.
	localBytes = 64 << 20
	// knownDenials is the number of denials that a replica remembers.
	knownDenials = 100_000
	// probeInterval is the time between the probes of an unavailable Redis.
	probeInterval = time.Second
	// leaseInterval is the time between the looks for leases that have ended.
	leaseInterval = 100 * time.Millisecond
	// replicasKnownAfter is the time after which replicas know how many they are: the interval of heartbeats.
	replicasKnownAfter = 2 * time.Second
)

var errUnavailable = errors.New("redis is unavailable")

// redis is the shared store of counters. It answers immediately, unless it is unavailable.
type redis struct {
	*memstore.Store

	unavailable bool
	calls       int64 // that decided requests
	resets      map[string]bool
}

// fails returns the error of a call.
func (r *redis) fails() error {
	if r.unavailable {
		return errUnavailable
	}
	return nil
}

// connection is the connection of one replica to Redis. It implements failover.Remote and lease.Remote.
type connection struct {
	*redis

	broken  bool // the replica has noticed that Redis is unavailable
	noticed func(error)
}

func (c *connection) call() error {
	err := c.fails()
	if err != nil && !c.broken {
		c.broken = true
		c.noticed(err)
	}
	return err
}

// Unavailable implements failover.Remote.
func (c *connection) Unavailable(string) bool { return c.broken }

// Spend implements limiter.Store.
func (c *connection) Spend(ctx context.Context, charges []limiter.Charge) ([]limiter.Decision, error) {
	if err := c.call(); err != nil {
		return nil, err
	}
	c.calls++
	return c.Store.Spend(ctx, charges)
}

// Peek implements limiter.Store.
func (c *connection) Peek(ctx context.Context, charges []limiter.Charge) ([]limiter.Decision, error) {
	if err := c.call(); err != nil {
		return nil, err
	}
	return c.Store.Peek(ctx, charges)
}

// Refund implements limiter.Store.
func (c *connection) Refund(ctx context.Context, refunds []limiter.Refund) error {
	if err := c.call(); err != nil {
		return err
	}
	return c.Store.Refund(ctx, refunds)
}

// ReportUsage implements failover.Remote.
func (c *connection) ReportUsage(ctx context.Context, charge limiter.Charge) (uncounted bool, err error) {
	if err := c.fails(); err != nil {
		return true, err
	}
	decisions, err := c.Store.Spend(ctx, []limiter.Charge{charge})
	if err == nil && !decisions[0].Allowed && decisions[0].Remaining > 0 { // as many as fit
		charge.Cost = decisions[0].Remaining
		_, err = c.Store.Spend(ctx, []limiter.Charge{charge})
	}
	return false, err
}

// ResetOnce implements failover.Remote.
func (c *connection) ResetOnce(ctx context.Context, key, id string) error {
	if err := c.fails(); err != nil || c.resets[key+id] {
		return err
	}
	c.resets[key+id] = true
	return c.Store.Reset(ctx, []string{key}, id)
}

// replica is a limiter.
type replica struct {
	engine     *engine.Engine
	connection *connection
	failover   *failover.Store
	counters   *local.Counters
	leases     *lease.Leases
	since      time.Time // when it has noticed the outage
}

// newReplica returns a limiter with the layers of weir serve.
func newReplica(shared *redis, set rules.Set, clock func() time.Time) (*replica, error) {
	index, err := matching.NewIndex(set, "simulated", "simulated:")
	if err != nil {
		return nil, err
	}
	index.UseClock(clock)
	r := &replica{connection: &connection{redis: shared}, counters: local.New(localBytes, clock)}
	r.failover = failover.New(r.connection, r.counters, clock, slog.New(slog.DiscardHandler))
	r.leases = lease.New(r.connection, clock)
	r.connection.noticed = func(err error) {
		r.since = clock()
		r.failover.Unavailable("redis", err)
	}
	layers := store.Layers{Leases: r.leases, Denials: denials.NewCache(knownDenials, clock), Failover: r.failover}
	registry := prometheus.NewRegistry()
	chain := store.New(r.connection, layers, registry)
	r.engine = engine.New(chain, engine.SourceRedis, engine.NewMetrics(registry), engine.WithClock(clock), engine.WithLayers(chain))
	r.engine.Swap(index)
	return r, nil
}

// share sets the number of replicas, of which this is the one with the rank.
func (r *replica) share(replicas, rank int) {
	r.counters.Share(local.Peers{Replicas: int64(replicas), Rank: int64(rank)})
	r.leases.Share(int64(replicas))
}

// probe ends the outage of the replica if Redis answers again.
func (r *replica) probe(ctx context.Context, now time.Time) error {
	if !r.connection.broken || r.connection.unavailable {
		return nil
	}
	if err := r.failover.Recovering(ctx, now.Sub(r.since)); err != nil {
		return fmt.Errorf("recovery: %w", err)
	}
	r.connection.broken = false
	r.failover.Recovered("redis")
	return nil
}
