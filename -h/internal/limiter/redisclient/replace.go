package redisclient

import (
	"context"
	"errors"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/go/internal/limiter/wait"
)

// background has what a Client does besides calls.
type background struct {
	ctx     context.Context //nolint:containedctx // it ends the goroutines
	stop    context.CancelFunc
	mu      sync.Mutex
	closed  bool
	running sync.WaitGroup
	errs    []error // of connections that were closed
}

// start calls do in a goroutine, unless the Client is closed. It does not wait for it.
func (b *background) start(do func(context.Context)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed {
		b.running.Go(func() { do(b.ctx) })
	}
}

// close ends the goroutines.
func (b *background) close() error {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.stop()
	b.running.Wait()
	return errors.Join(b.errs...)
}

// replace makes the Client use other connections. Subscriptions move to them, and the calls in flight have time to end. The caller holds
// c.switching.
func (c *Client) replace(fresh *pool) {
	old := c.current.Swap(fresh)
	c.recovery.announce()
	closeOld := func() {
		err := old.rdb.Close()
		c.background.mu.Lock()
		defer c.background.mu.Unlock()
		c.background.errs = append(c.background.errs, err)
	}
	c.background.mu.Lock()
	defer c.background.mu.Unlock()
	if c.background.closed {
		_ = old.rdb.Close()
		return
	}
	c.background.running.Go(func() {
		wait.Sleep(c.background.ctx, c.options.dialTimeout()+2*c.options.Timeout) // a batch can take twice the timeout
		closeOld()
	})
}

// renewal is the state of the renewal of credentials.
type renewal struct {
	once sync.Once
	last credentials // with which the connections were authenticated
}

type credentials struct{ username, password string }

// credentials returns those for a new connection. From the first one on, they are read periodically.
func (c *Client) credentials(ctx context.Context) (username, password string, err error) {
	username, password, err = c.options.Credentials(ctx)
	if err != nil {
		return "", "", err
	}
	c.renewal.once.Do(func() {
		c.renewal.last = credentials{username, password}
		c.background.start(c.renewCredentials)
	})
	return username, password, nil
}

// renewCredentials replaces the connections when the credentials have changed, until ctx ends. It does so before the server closes connections
// whose token has expired, and without an effect on calls: the new connections are authenticated before the first call. While the credentials
// cannot be read, or Redis rejects them, the connections stay as they are.
func (c *Client) renewCredentials(ctx context.Context) {
	for wait.Sleep(ctx, c.options.RenewCredentials) {
		username, password, err := c.options.Credentials(ctx)
		if current := (credentials{username, password}); err == nil && current != c.renewal.last && c.reconnect(ctx) == nil {
			c.renewal.last = current
		}
	}
}

// reconnect replaces the connections by as many new ones. It fails if one of them cannot be made.
func (c *Client) reconnect(ctx context.Context) error {
	c.switching.Lock()
	defer c.switching.Unlock()
	ctx, cancel := context.WithTimeout(ctx, c.options.dialTimeout()+c.options.Timeout)
	defer cancel()
	old, mode := c.current.Load(), c.options.Mode
	if _, ok := c.Cluster(); ok {
		mode = ModeCluster
	}
	fresh := c.newPool(mode)
	if err := prepare(ctx, old.rdb, fresh.rdb); err != nil {
		return errors.Join(err, fresh.rdb.Close())
	}
	c.replace(fresh)
	return nil
}

// maxPrepared bounds the connections to a node that are made before they are needed.
const maxPrepared = 32

// prepare makes as many connections of fresh as old has, to each node.
func prepare(ctx context.Context, old, fresh redis.UniversalClient) error {
	before, ok := old.(*redis.ClusterClient)
	after, isCluster := fresh.(*redis.ClusterClient)
	if !ok || !isCluster {
		single, ok := fresh.(*redis.Client)
		if !ok {
			return errors.New("unsupported Redis client")
		}
		return prepareNode(ctx, single, int(old.PoolStats().TotalConns))
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
		return prepareNode(ctx, node, counts[node.Options().Addr])
	}))
}

// prepareNode makes n connections, at least one.
func prepareNode(ctx context.Context, node *redis.Client, n int) error {
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
