package redisclient

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/weir-dev/weir/limiter/redisclient/prepare"
	"github.com/weir-dev/weir/limiter/wait"
)

// maxRenewalPause bounds the pause after attempts to replace the connections that failed.
const maxRenewalPause = 10 * time.Second

// renewal is the state of the renewal of credentials.
type renewal struct {
	mu   sync.Mutex
	used credentials // those of the open connections
	// since is when the oldest open connection was authenticated, or before that; zero before the first one.
	since time.Time
}

// credentials for servers and Sentinels.
type credentials struct{ username, password, sentinelUsername, sentinelPassword string }

// startRenewal begins to keep the credentials up to date. It reads those for Sentinels.
func (c *Client) startRenewal() error {
	o := &c.options
	if o.SentinelCredentials != nil {
		var err error
		if c.renewal.used.sentinelUsername, c.renewal.used.sentinelPassword, err = o.SentinelCredentials(c.background.ctx); err != nil {
			return fmt.Errorf("open Redis: %w", err)
		}
	}
	if o.Renew != nil {
		c.background.start(o.Renew)
	}
	if o.RenewCredentials > 0 {
		c.background.start(c.renewCredentials)
	}
	return nil
}

// credentials returns those for a new connection to a server.
func (c *Client) credentials(ctx context.Context) (username, password string, err error) {
	username, password, err = c.options.Credentials(ctx)
	if err != nil {
		return "", "", noCredentials(err)
	}
	r := &c.renewal
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.since.IsZero() {
		r.used.username, r.used.password, r.since = username, password, time.Now()
	}
	return username, password, nil
}

// noCredentials is err, because of which there are no valid credentials for a new connection, as an error of [KindCredentials].
func noCredentials(err error) error { return &kindError{error: err, kind: KindCredentials} }

// sentinelCredentials returns those for new connections to Sentinels.
func (c *Client) sentinelCredentials() (username, password string) {
	if c.options.SentinelCredentials == nil {
		return c.options.SentinelUsername, c.options.SentinelPassword
	}
	c.renewal.mu.Lock()
	defer c.renewal.mu.Unlock()
	return c.renewal.used.sentinelUsername, c.renewal.used.sentinelPassword
}

// renewCredentials replaces the connections when the credentials have changed, until ctx ends. It does so before the server closes connections
// whose token has expired, and without an effect on calls: the new connections are authenticated before the first call. While the credentials
// cannot be read, or Redis rejects them, the connections stay as they are.
func (c *Client) renewCredentials(ctx context.Context) {
	interval := c.options.RenewCredentials
	for pause := interval; wait.Sleep(ctx, pause); {
		if err := c.renewOnce(ctx); err != nil {
			pause = max(min(2*pause, maxRenewalPause), interval)
		} else {
			pause = interval
		}
	}
}

// renewOnce replaces the connections if it is time. It returns an error if they could not be replaced.
func (c *Client) renewOnce(ctx context.Context) error {
	o, r := &c.options, &c.renewal
	r.mu.Lock()
	used, since := r.used, r.since
	r.mu.Unlock()
	now, begun := used, time.Now()
	if o.SentinelCredentials != nil {
		if username, password, err := o.SentinelCredentials(ctx); err == nil {
			now.sentinelUsername, now.sentinelPassword = username, password
		}
	}
	sentinelsChanged := now != used
	if !since.IsZero() {
		if username, password, err := o.Credentials(ctx); err == nil {
			now.username, now.password = username, password
		}
	}
	if now == used || !sentinelsChanged && begun.Sub(since) < o.KeepConnections {
		return nil
	}
	return c.reconnect(ctx, now, begun)
}

// reconnect replaces the connections by as many new ones, with other credentials. It fails if one of them cannot be made.
func (c *Client) reconnect(ctx context.Context, now credentials, begun time.Time) error {
	c.switching.Lock()
	defer c.switching.Unlock()
	ctx, cancel := context.WithTimeout(ctx, c.options.dialTimeout()+c.options.Timeout)
	defer cancel()
	old, mode := c.current.Load(), c.options.Mode
	if _, ok := c.Cluster(); ok {
		mode = ModeCluster
	}
	fresh := c.newPoolWith(mode, now.sentinelUsername, now.sentinelPassword)
	if err := prepare.Connections(ctx, old.rdb, fresh.rdb); err != nil {
		return errors.Join(err, fresh.rdb.Close())
	}
	c.renewal.mu.Lock()
	c.renewal.used, c.renewal.since = now, begun
	c.renewal.mu.Unlock()
	c.replace(fresh)
	return nil
}
