package redisstore

import (
	"context"
	"sync"
	"time"

	"github.com/weir-dev/weir/go/internal/limiter/redisclient"
)

// batchers has one batcher per Redis node: a slow node of a cluster does not delay calls to the others.
type batchers struct {
	send    func([]*call)
	meter   Meter               // nil: no measurements
	client  *redisclient.Client // it can become that of a cluster
	breaker *breakerConfig      // nil: no breakers

	mu     sync.Mutex
	byNode map[string]*batcher // by address
}

func newBatchers(client *redisclient.Client, send func([]*call), meter Meter) *batchers {
	return &batchers{send: send, meter: meter, client: client, byNode: map[string]*batcher{}}
}

// forKey returns the batcher of the node that has key. Keys for which no node is known share a batcher, and their calls fail.
func (b *batchers) forKey(deadline time.Time, key string) *batcher {
	address := b.address(deadline, key)
	b.mu.Lock()
	defer b.mu.Unlock()
	node, ok := b.byNode[address]
	if !ok {
		node = &batcher{send: b.send, node: b.describe(address), meter: b.meter}
		if b.breaker != nil {
			node.breaker = b.breaker.newBreaker(node.node)
			node.breaker.isElsewhere = func(key string) bool {
				return address != "" && b.address(time.Now().Add(b.breaker.timeout), key) != address
			}
		}
		b.byNode[address] = node
	}
	return node
}

// address returns "" if no node is known for key, or if there is only one node.
func (b *batchers) address(deadline time.Time, key string) string {
	cluster, ok := b.client.Cluster()
	if !ok {
		return ""
	}
	node, err := cluster.MasterForKey(untilContext{context.Background(), deadline}, key)
	if err != nil {
		return ""
	}
	return node.Options().Addr
}

// untilContext is a context with a deadline and without a timer: almost always the nodes are known, and the call needs no time. Connections
// use the deadline.
type untilContext struct {
	context.Context //nolint:containedctx // the background

	deadline time.Time
}

// Deadline implements context.Context.
func (c untilContext) Deadline() (time.Time, bool) { return c.deadline, true }

// describe returns the name of a node for messages about its outages.
func (b *batchers) describe(address string) string {
	if address != "" {
		return address
	}
	if _, ok := b.client.Cluster(); ok {
		return "the unknown node of a slot"
	}
	return b.client.Name()
}
