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
	only    string               // what that one is called
	guard   *guard               // nil for none

	mu     sync.Mutex
	byNode map[string]*collector // by address
}

func newCollectors(client *Client, send func([]*call)) *collectors {
	cluster, _ := client.rdb.(*redis.ClusterClient)
	return &collectors{send: send, cluster: cluster, only: client.name, byNode: map[string]*collector{}}
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
		if c.guard != nil {
			b.breaker = c.guard.newBreaker(c.name(address))
		}
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

// name is what a Redis is called where its outages are told.
func (c *collectors) name(address string) string {
	switch {
	case address != "":
		return address
	case c.cluster != nil:
		return "the node of a slot that no node is known of"
	default:
		return c.only
	}
}
