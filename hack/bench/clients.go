package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/weir-dev/weir/limiter/redisclient"
)

// timeout bounds a call. It is long, so that no call fails because the machine is busy.
const timeout = 10 * time.Second

// poolPerProcessor is the greatest number of connections per CPU: the default of go-redis, which the client of Weir uses.
const poolPerProcessor = 10

// clients are connections to one Redis, with the default options of their libraries except for timeouts.
type clients struct {
	weir    *redisclient.Client
	goRedis *redis.Client
	auto    *redis.AutoPipeliner
	rueidis rueidis.Client
}

func connect(url string) (*clients, error) {
	options, err := redis.ParseURL(url)
	if err != nil {
		return nil, err
	}
	options.PoolSize = poolPerProcessor * runtime.GOMAXPROCS(0)
	options.ReadTimeout, options.WriteTimeout, options.PoolTimeout = timeout, timeout, timeout
	c := &clients{goRedis: redis.NewClient(options)}
	if c.auto, err = c.goRedis.AutoPipeline(); err != nil {
		return nil, errors.Join(fmt.Errorf("autopipeline: %w", err), c.close())
	}
	if c.weir, err = redisclient.Open(url, timeout); err != nil {
		return nil, errors.Join(err, c.close())
	}
	c.rueidis, err = rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{options.Addr}, DisableCache: true})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open rueidis: %w", err), c.close())
	}
	return c, nil
}

// close closes all clients that were opened.
func (c *clients) close() error {
	var errs []error
	if c.rueidis != nil {
		c.rueidis.Close()
	}
	if c.weir != nil {
		errs = append(errs, c.weir.Close())
	}
	return errors.Join(append(errs, c.goRedis.Close())...)
}

// info has the fields of a section of INFO.
type info map[string]string

func (c *clients) info(ctx context.Context, section string) (info, error) {
	text, err := c.goRedis.Info(ctx, section).Result()
	if err != nil {
		return nil, fmt.Errorf("INFO %s: %w", section, err)
	}
	return parseInfo(text), nil
}

func parseInfo(text string) info {
	fields := info{}
	for line := range strings.Lines(text) {
		if name, value, found := strings.Cut(strings.TrimSpace(line), ":"); found {
			fields[name] = value
		}
	}
	return fields
}

// number parses the number in a field.
func (i info) number(name string) (float64, error) {
	n, err := strconv.ParseFloat(i[name], 64)
	if err != nil {
		return 0, fmt.Errorf("parse %s of INFO: %w", name, err)
	}
	return n, nil
}
