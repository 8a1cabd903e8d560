package rediscommand

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/weir-dev/weir/cmd/weir/flags"
	"github.com/weir-dev/weir/limiter/admin/adminapi"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/redisclient/redischeck"
	"github.com/weir-dev/weir/limiter/rules"
)

const (
	// checkerTime bounds a check. The operator waits for five seconds.
	checkerTime = 4 * time.Second
	// checkerSamples are fewer than those of weir redis check, because the limiter serves requests meanwhile.
	checkerSamples = 100
)

// Checker checks the Redis of a running limiter.
type Checker struct {
	URL     string
	Files   flags.RedisTLS
	Names   redischeck.Names
	Timeout time.Duration // of decisions
	Engine  *engine.Engine

	running sync.Mutex
}

// Check finds out everything about the Redis with new connections, which show whether the credentials and certificates are right now. Of several calls,
// one runs at a time.
func (c *Checker) Check(ctx context.Context) adminapi.RedisReport {
	c.running.Lock()
	defer c.running.Unlock()
	ctx, cancel := context.WithTimeout(ctx, checkerTime)
	defer cancel()
	client, err := flags.OpenRedis(c.URL, c.Files, Timeout, slog.New(slog.DiscardHandler)) // the report has the errors
	if err != nil {                                                                        // for example, a file with credentials cannot be read
		r := adminapi.RedisReport{}
		r.Add(adminapi.RedisError, err.Error())
		return r
	}
	defer func() { _ = client.Close() }() // the check has ended
	awaitToken(ctx, client)
	return Check(ctx, client, &Settings{Names: c.Names, Samples: checkerSamples, Timeout: c.Timeout, Rules: c.rules()})
}

// rules returns the active rules, nil before the first rule set.
func (c *Checker) rules() (all []rules.Rule) {
	index := c.Engine.Index()
	if index == nil {
		return nil
	}
	for rule := range index.Rules() {
		all = append(all, rule.Rule)
	}
	return all
}
