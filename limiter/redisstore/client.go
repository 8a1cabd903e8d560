package redisstore

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// dialTimeoutFactor and minDialTimeout let a connection be made (DNS, TCP, TLS, AUTH) in more time than a command
// gets: a dial is paid once, a command on every request.
const (
	dialTimeoutFactor = 2
	minDialTimeout    = 250 * time.Millisecond
)

// connMaxIdle closes a connection before the usual firewalls forget it.
const connMaxIdle = 5 * time.Minute

// keepAlive is how often an idle connection shows that it lives: what go-redis' own dialer says.
const keepAlive = 5 * time.Minute

// Client is a connection pool to one Redis: a server, the primary that Sentinels name, or a cluster. It is safe for
// concurrent use, and finds a new primary by itself.
type Client struct {
	rdb redis.UniversalClient
	// name says which Redis it is, to people.
	name string
}

// Open is [New] for a URL as [ParseURL] reads it. No error of Open holds any part of the URL, for its passwords.
func Open(rawURL string, timeout time.Duration) (*Client, error) {
	options, err := ParseURL(rawURL)
	if err != nil {
		return nil, fmt.Errorf("open Redis: %w", err)
	}
	options.Timeout = timeout
	return New(options)
}

// New makes a Client. Every command is given up after the timeout, earlier if its context says so, and is not sent
// again: a command whose reply was lost may have run. (On a cluster, commands that may be repeated safely are.) New does
// not connect; [Client.Ping] does.
func New(o Options) (*Client, error) {
	if err := o.check(); err != nil {
		return nil, fmt.Errorf("open Redis: %w", err)
	}
	if o.Timeout <= 0 {
		return nil, fmt.Errorf("open Redis: timeout %v is not positive", o.Timeout)
	}
	// go-redis writes connection trouble to stderr by itself. Here every call returns its error to somebody who logs it.
	logging.Disable()
	switch options := o.universal(); o.Mode {
	case ModeCluster:
		cluster := options.Cluster()
		// All our commands have keys or go to any node; else the client asks for the list of all commands, which is long
		// and may be forbidden.
		cluster.DisableRoutingPolicies = true
		return &Client{rdb: redis.NewClusterClient(cluster)}, nil
	case ModeSentinel:
		return &Client{rdb: redis.NewFailoverClient(options.Failover()), name: "the primary " + o.MasterName}, nil
	default:
		return &Client{rdb: redis.NewClient(options.Simple()), name: o.Addresses[0]}, nil
	}
}

func (o *Options) universal() *redis.UniversalOptions {
	return &redis.UniversalOptions{
		Addrs: o.Addresses, MasterName: o.MasterName, DB: o.Database, TLSConfig: o.TLS,
		Username: o.Username, Password: o.Password, CredentialsProviderContext: o.Credentials, Dialer: o.dialer(),
		SentinelUsername: o.SentinelUsername, SentinelPassword: o.SentinelPassword,

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
	return max(dialTimeoutFactor*o.Timeout, minDialTimeout)
}

// Ping says whether Redis answers.
func (c *Client) Ping(ctx context.Context) error {
	if err := c.rdb.Ping(ctx).Err(); err != nil {
		return fmt.Errorf("ping Redis: %w", err)
	}
	return nil
}

// Close closes all connections.
func (c *Client) Close() error {
	if err := c.rdb.Close(); err != nil {
		return fmt.Errorf("close Redis connections: %w", err)
	}
	return nil
}

// forEachPrimary calls do on every Redis that holds data. On a Cluster calls run concurrently.
func (c *Client) forEachPrimary(ctx context.Context, do func(context.Context, *redis.Client) error) error {
	switch rdb := c.rdb.(type) {
	case *redis.ClusterClient:
		return rdb.ForEachMaster(ctx, do)
	case *redis.Client:
		return do(ctx, rdb)
	default:
		return fmt.Errorf("redis client %T has no known primaries", rdb)
	}
}
