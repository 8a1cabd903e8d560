package redischeck

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/weir-dev/weir/limiter/redisclient"
)

const (
	// startTimeout is how long a process waits at start to know what Redis is.
	startTimeout = time.Second
	// connectionRetry is the pause after Redis was unavailable, or did not fit the options.
	connectionRetry = 2 * time.Second
	// permissionRetry is the pause after Redis rejected a command.
	permissionRetry = 30 * time.Second
)

// Connection finds out what Redis is, and whether it fits the options and the permissions that a limiter needs. It logs both, at start if Redis is
// available then. The clients become those of a Redis Cluster if the server is a node of one.
type Connection struct {
	client *redisclient.Client
	others []*redisclient.Client
	names  Names
	log    *slog.Logger

	logged string // the subject of the last line
	usable bool
}

// NewConnection returns a Connection that has not asked Redis. The other clients have the same options as client, except for the timeout.
func NewConnection(client *redisclient.Client, names Names, log *slog.Logger, others ...*redisclient.Client) *Connection {
	return &Connection{client: client, others: others, names: names, log: log}
}

// Connect returns a Connection that has asked Redis once. It returns within about a second, and does not fail, because a limiter also serves
// without Redis.
func Connect(ctx context.Context, client *redisclient.Client, names Names, log *slog.Logger, others ...*redisclient.Client) *Connection {
	c := NewConnection(client, names, log, others...)
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	c.ask(ctx)
	return c
}

// Usable reports whether the last answer of Redis was that of one that fits the options. Call it before Run.
func (c *Connection) Usable() bool { return c.usable }

// Run asks Redis until it is as the limiter needs it, and then waits until ctx ends.
func (c *Connection) Run(ctx context.Context) {
	for {
		pause := c.ask(ctx)
		if pause == 0 {
			<-ctx.Done()
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// ask returns the time to wait until it must be called again, 0 if Redis is as the limiter needs it.
func (c *Connection) ask(ctx context.Context) (pause time.Duration) {
	found, err := c.client.Discover(ctx)
	if c.usable = err == nil; err != nil {
		c.logProblem(ctx, err)
		return connectionRetry
	}
	for _, other := range c.others {
		_, _ = other.Discover(ctx) // the error is that of client
	}
	missing, err := MissingPermissions(ctx, c.client, c.names)
	if err != nil {
		c.logProblem(ctx, err)
		return connectionRetry
	}
	if len(missing) == 0 {
		c.logOnce(found.String(), slog.LevelInfo, "connected to Redis", "server", found.String())
		return 0
	}
	changes := make([]string, len(missing))
	for i, m := range missing {
		changes[i] = m.String()
	}
	change := strings.Join(changes, "; ")
	level, message := slog.LevelError, "Redis rejects commands that Weir needs"
	if !slices.ContainsFunc(missing, func(m Missing) bool { return m.Optional == "" }) {
		level, message = slog.LevelWarn, "Redis rejects optional commands"
	}
	c.logOnce(change, level, message, "server", found.String(), "change", change, "reply", missing[0].Reply)
	return permissionRetry
}

func (c *Connection) logProblem(ctx context.Context, err error) {
	if errors.Is(ctx.Err(), context.Canceled) {
		return // the process ends
	}
	if setup, ok := errors.AsType[*redisclient.SetupError](err); ok {
		c.logOnce(setup.Advice, slog.LevelError, "Redis cannot be used as configured, so policies are decided without it", "problem", setup)
		return
	}
	c.logOnce(redisclient.Kind(err), slog.LevelWarn, "Redis is not available yet, so policies are decided without it", "error", err)
}

// logOnce logs a line, unless the last one had the same subject.
func (c *Connection) logOnce(subject string, level slog.Level, message string, attributes ...any) {
	if c.logged == subject {
		return
	}
	c.logged = subject
	c.log.Log(context.Background(), level, message, attributes...)
}
