// Package prepare makes connections to Redis before calls need them.
package prepare

import (
	"context"
	"errors"
	"sync"

	"github.com/redis/go-redis/v9"
)

// maxPrepared bounds the connections to a node that are made before they are needed.
const maxPrepared = 32

// Connections makes as many connections of fresh as old has, to each node.
func Connections(ctx context.Context, old, fresh redis.UniversalClient) error {
	before, ok := old.(*redis.ClusterClient)
	after, isCluster := fresh.(*redis.ClusterClient)
	if !ok || !isCluster {
		single, ok := fresh.(*redis.Client)
		if !ok {
			return errors.New("unsupported Redis client")
		}
		return connect(ctx, single, int(old.PoolStats().TotalConns))
	}
	var mu sync.Mutex
	counts := map[string]int{}
	err := before.ForEachMaster(ctx, func(_ context.Context, node *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		counts[node.Options().Addr] = int(node.PoolStats().TotalConns)
		return nil
	})
	return errors.Join(err, after.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
		return connect(ctx, node, counts[node.Options().Addr])
	}))
}

// connect makes n connections, at least one.
func connect(ctx context.Context, node *redis.Client, n int) error {
	conns := make([]*redis.Conn, min(max(n, 1), maxPrepared))
	errs := make([]error, len(conns))
	var dials sync.WaitGroup
	for i := range conns {
		conns[i] = node.Conn() // keeps its connection until Close, so that each has another one
		dials.Go(func() { errs[i] = conns[i].Ping(ctx).Err() })
	}
	dials.Wait()
	for i, conn := range conns {
		errs[i] = errors.Join(errs[i], conn.Close())
	}
	return errors.Join(errs...)
}
