package redisstore

import (
	"context"
	"errors"
	"fmt"
	"net/url"
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

// Client is a connection pool to one Redis, Redis Cluster included. It is safe for concurrent use.
type Client struct {
	rdb redis.UniversalClient
}

// Open makes a Client for a URL of the form redis://user:password@host:6379/0 (rediss:// with TLS). Further cluster
// nodes follow as addr parameters (redis://a:6379?addr=b:6379) and make it a Redis Cluster client. Every command is
// given up after timeout, earlier if its context says so, and is not sent again: a command whose reply was lost may have
// run. (The Cluster client resends a failed command all the same unless its NoRetry method says true.) Open does not
// connect; [Client.Ping] does. No error of Open holds any part of the URL, for its password.
func Open(rawURL string, timeout time.Duration) (*Client, error) {
	if timeout <= 0 {
		return nil, fmt.Errorf("open Redis: timeout %v is not positive", timeout)
	}
	options, cluster, err := parse(rawURL)
	if err != nil {
		return nil, fmt.Errorf("open Redis: %w", err)
	}
	// go-redis writes connection trouble to stderr by itself. Here every call returns its error to somebody who logs it.
	logging.Disable()

	options.MaxRetries = -1
	options.DialerRetries = 1
	options.ContextTimeoutEnabled = true
	options.DialTimeout = max(dialTimeoutFactor*timeout, minDialTimeout)
	options.ReadTimeout = timeout
	options.WriteTimeout = timeout
	options.PoolTimeout = timeout
	options.ConnMaxIdleTime = connMaxIdle
	options.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	if cluster {
		return &Client{rdb: redis.NewClusterClient(options.Cluster())}, nil
	}
	return &Client{rdb: redis.NewClient(options.Simple())}, nil
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

// errURL replaces the errors of URL parsers, which quote what they were given.
var errURL = errors.New("not a URL of the form redis://[user:password@]host:port[/database] " +
	"(percent-encode special characters of the password)")

func parse(rawURL string) (options *redis.UniversalOptions, cluster bool, err error) {
	u, err := url.Parse(rawURL)
	if err != nil || u.Host == "" || (u.Scheme != "redis" && u.Scheme != "rediss") {
		return nil, false, errURL
	}
	if !u.Query().Has("addr") {
		single, err := redis.ParseURL(rawURL)
		if err != nil {
			return nil, false, errURL
		}
		return &redis.UniversalOptions{
			Addrs: []string{single.Addr}, DB: single.DB, Username: single.Username, Password: single.Password,
			TLSConfig: single.TLSConfig, ClientName: single.ClientName,
		}, false, nil
	}
	many, err := redis.ParseClusterURL(rawURL)
	if err != nil {
		return nil, false, errURL
	}
	return &redis.UniversalOptions{
		Addrs: many.Addrs, Username: many.Username, Password: many.Password,
		TLSConfig: many.TLSConfig, ClientName: many.ClientName, IsClusterMode: true,
	}, true, nil
}
