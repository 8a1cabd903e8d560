package redisclient

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/weir-dev/weir/limiter/redisclient/endpoints"
)

const (
	// dialTimeoutFactor and MinDialTimeout give a dial (DNS, TCP, TLS, AUTH) more time than a command: dials are rare,
	// commands are part of every request.
	dialTimeoutFactor = 2
	// MinDialTimeout is the least time for a dial.
	MinDialTimeout = 250 * time.Millisecond
)

// connMaxIdle closes an idle connection before common firewalls drop it.
const connMaxIdle = 5 * time.Minute

// keepAlive is the interval between TCP keep-alive probes; go-redis' own dialer uses the same.
const keepAlive = 5 * time.Minute

// Client is a connection pool to one Redis: a server, the primary behind Sentinels, or a cluster. It is safe for
// concurrent use and follows a failover to a new primary. If the one server of its options is a node of a Redis Cluster, it becomes a client of
// that cluster, see [Client.Discover].
type Client struct {
	options Options
	id      string
	current atomic.Pointer[pool]

	switching sync.Mutex // held while current is replaced

	background background
	discovery  discovery
	recovery   recovery
	renewal    renewal
}

// pool has the connections of a Client.
type pool struct {
	rdb  redis.UniversalClient
	name string
}

// ID is a random name of this Client, the same until it is closed. Messages contain it, so that their sender can recognize them.
func (c *Client) ID() string { return c.id }

// Open is [New] for a URL that [ParseURL] reads. Its errors contain no part of the URL, which can contain passwords.
func Open(rawURL string, timeout time.Duration) (*Client, error) {
	options, err := ParseURL(rawURL)
	if err != nil {
		return nil, fmt.Errorf("open Redis: %w", err)
	}
	options.Timeout = timeout
	return New(options)
}

// New returns a Client. A command fails after the timeout, or earlier if its context ends. It is not retried, because a
// command whose reply was lost may have run. (On a cluster, go-redis retries commands that are safe to repeat.) New does
// not connect; [Client.Ping] does.
func New(o Options) (*Client, error) {
	if err := o.validate(); err != nil {
		return nil, fmt.Errorf("open Redis: %w", err)
	}
	if o.Timeout <= 0 {
		return nil, fmt.Errorf("open Redis: timeout %v must be positive", o.Timeout)
	}
	// go-redis writes connection errors to stderr. Here every call returns its error, and the caller logs it.
	logging.Disable()
	c := newClient(o)
	if err := c.startRenewal(); err != nil {
		return nil, err
	}
	c.current.Store(c.newPool(o.Mode))
	return c, nil
}

// newClient returns a Client without connections.
func newClient(o Options) *Client {
	ctx, stop := context.WithCancel(context.Background())
	return &Client{options: o, id: rand.Text(), background: background{ctx: ctx, stop: stop}}
}

// newPool returns connections to Redis in that mode.
func (c *Client) newPool(mode Mode) *pool {
	username, password := c.sentinelCredentials()
	return c.newPoolWith(mode, username, password)
}

// newPoolWith is newPool with other credentials for the Sentinels.
func (c *Client) newPoolWith(mode Mode, sentinelUsername, sentinelPassword string) *pool {
	switch mode {
	case ModeCluster:
		return newClusterPool(c.universal(c.options.asCluster()))
	case ModeSentinel:
		options := c.universal(&c.options).Failover()
		options.SentinelUsername, options.SentinelPassword = sentinelUsername, sentinelPassword
		return &pool{rdb: redis.NewFailoverClient(options), name: "the primary " + c.options.MasterName}
	default:
		single := redis.NewClient(c.universal(&c.options).Simple())
		single.AddHook(movedHook{c})
		return &pool{rdb: single, name: c.options.Addresses[0]}
	}
}

func newClusterPool(options *redis.UniversalOptions) *pool {
	cluster := options.Cluster()
	// All commands here have keys or can run on any node. With routing policies go-redis would request the list of
	// all commands, which is long, and which an ACL can forbid.
	cluster.DisableRoutingPolicies = true
	return &pool{rdb: endpoints.ResolveUnknown(redis.NewClusterClient(cluster))}
}

// universal returns the options of go-redis.
func (c *Client) universal(o *Options) *redis.UniversalOptions {
	options := o.universal()
	if o.Credentials != nil {
		options.CredentialsProviderContext = c.credentials
	}
	return options
}

func (o *Options) universal() *redis.UniversalOptions {
	return &redis.UniversalOptions{
		Addrs: o.Addresses, MasterName: o.MasterName, DB: o.Database, TLSConfig: o.TLS,
		Username: o.Username, Password: o.Password, Dialer: o.dialer(),
		// With RESP3, go-redis looks for notifications of Redis before and after each command. Weir does not ask for any, and with TLS the first command of a
		// connection waited for 50 ms: go-redis took the session tickets below TLS for the beginning of a notification.
		Protocol: 2,

		MaxRetries:               -1,
		DialerRetries:            1,
		ContextTimeoutEnabled:    true,
		DialTimeout:              o.dialTimeout(),
		ReadTimeout:              o.Timeout,
		WriteTimeout:             o.Timeout,
		PoolTimeout:              o.Timeout,
		ConnMaxIdleTime:          connMaxIdle,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
}

func (o *Options) dialTimeout() time.Duration {
	return max(dialTimeoutFactor*o.Timeout, MinDialTimeout)
}

// Redis returns the go-redis client, for the packages that store data in Redis. Do not keep it: it changes if Redis turns out to be a cluster.
func (c *Client) Redis() redis.UniversalClient { return c.current.Load().rdb }

// Cluster returns the go-redis client of a Redis Cluster; ok is false if Redis is not a cluster. Do not keep it, as that of [Client.Redis].
func (c *Client) Cluster() (cluster *redis.ClusterClient, ok bool) {
	connections := c.current.Load()
	if connections == nil { // the zero value, which connects to nothing
		return nil, false
	}
	cluster, ok = connections.rdb.(*redis.ClusterClient)
	return cluster, ok
}

// Name describes the server or primary in messages; it is empty for a cluster.
func (c *Client) Name() string {
	connections := c.current.Load()
	if connections == nil {
		return ""
	}
	return connections.name
}

// Ping returns an error if Redis does not reply.
func (c *Client) Ping(ctx context.Context) error {
	if err := c.Redis().Ping(ctx).Err(); err != nil {
		return fmt.Errorf("ping Redis: %w", err)
	}
	return nil
}

// Close closes all connections.
func (c *Client) Close() error {
	if err := errors.Join(c.background.close(), c.Redis().Close()); err != nil {
		return fmt.Errorf("close Redis connections: %w", err)
	}
	return nil
}

// ForEachPrimary calls do with a client for each primary. On a cluster the calls run concurrently.
func (c *Client) ForEachPrimary(ctx context.Context, do func(context.Context, *redis.Client) error) error {
	switch rdb := c.Redis().(type) {
	case *redis.ClusterClient:
		return rdb.ForEachMaster(ctx, do)
	case *redis.Client:
		return do(ctx, rdb)
	default:
		return fmt.Errorf("unsupported Redis client %T", rdb)
	}
}

// Address returns the address of a node. A node that does not know its own host announces only a port: the host is then that of the options.
func (c *Client) Address(node *redis.Client) string {
	options := c.options.asCluster()
	return options.knownHost(node.Options().Addr)
}

// asCluster returns the options of the cluster that has the nodes of o.
func (o *Options) asCluster() *Options {
	cluster := *o
	cluster.Mode = ModeCluster
	return &cluster
}
