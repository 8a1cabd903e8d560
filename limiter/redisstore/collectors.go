package redisstore

import (
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// collectors has a collector for every Redis: what waits for one node of a Cluster does not hold up what another answers.
type collectors struct {
	send    func([]*call)
	cluster *redis.ClusterClient // nil if there is but one Redis

	mu     sync.Mutex
	byNode map[string]*collector // by address
}

func newCollectors(client *Client, send func([]*call)) *collectors {
	cluster, _ := client.rdb.(*redis.ClusterClient)
	return &collectors{send: send, cluster: cluster, byNode: map[string]*collector{}}
}

// of is the collector of calls to the node that has key. Where no node is known for it, calls fail together.
func (c *collectors) of(deadline time.Time, key string) *collector {
	address := ""
	if c.cluster != nil {
		address = c.address(deadline, key)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	b, known := c.byNode[address]
	if !known {
		b = &collector{send: c.send}
		c.byNode[address] = b
	}
	return b
}

func (c *collectors) address(deadline time.Time, key string) string {
	ctx, cancel := context.WithDeadline(context.Background(), deadline)
	defer cancel()
	node, err := c.cluster.MasterForKey(ctx, key)
	if err != nil {
		return ""
	}
	return node.Options().Addr
}
