package rig

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/weir-dev/weir/test/fixture"
)

// Redis is a Redis server or a Redis Cluster.
type Redis struct {
	URL string

	nodes []*fixture.RedisProcess
	stop  func() error
}

// StartRedis starts a Redis Cluster of that many primaries, or one server that is no cluster if nodes is 0. They write nothing to disk.
func StartRedis(ctx context.Context, nodes int) (*Redis, error) {
	if nodes == 0 {
		server, err := fixture.StartRedis(ctx)
		if err != nil {
			return nil, err
		}
		return &Redis{URL: server.URL(), nodes: []*fixture.RedisProcess{server}, stop: server.Stop}, nil
	}
	cluster, err := fixture.StartRedisPrimaries(ctx, nodes)
	if err != nil {
		return nil, err
	}
	return &Redis{URL: cluster.URL(), nodes: cluster.Nodes(), stop: cluster.Stop}, nil
}

// Info returns a field of INFO, summed over the nodes.
func (r *Redis) Info(ctx context.Context, section, field string) (float64, error) {
	var sum float64
	for _, node := range r.nodes {
		text, err := node.Do(ctx, "INFO", section)
		if err != nil {
			return 0, err
		}
		_, after, found := strings.Cut(fmt.Sprint(text), "\n"+field+":")
		line, _, _ := strings.Cut(after, "\r")
		value, err := strconv.ParseFloat(line, 64)
		if err != nil || !found {
			return 0, errors.Join(fmt.Errorf("INFO %s has no number %s", section, field), err)
		}
		sum += value
	}
	return sum, nil
}

// CPU returns the CPU time that all nodes have used.
func (r *Redis) CPU(ctx context.Context) (time.Duration, error) {
	user, err := r.Info(ctx, "cpu", "used_cpu_user")
	if err != nil {
		return 0, err
	}
	sys, err := r.Info(ctx, "cpu", "used_cpu_sys")
	return time.Duration((user + sys) * float64(time.Second)), err
}

// Stop stops the nodes.
func (r *Redis) Stop() error { return r.stop() }
