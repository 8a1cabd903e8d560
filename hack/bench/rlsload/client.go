package rlsload

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Client has open connections to a server. Its methods are not safe for concurrent use.
type Client struct {
	address string
	conns   []*conn
}

// Dial connects to the server at address, a host:port without TLS.
func Dial(ctx context.Context, address string, connections int) (*Client, error) {
	c := &Client{address: address}
	for i := range connections {
		conn, err := dial(ctx, address, uint64(i))
		if err != nil {
			return nil, errors.Join(fmt.Errorf("connect to %s: %w", address, err), c.Close())
		}
		c.conns = append(c.conns, conn)
	}
	return c, nil
}

// Close closes the connections.
func (c *Client) Close() error {
	var errs []error
	for _, conn := range c.conns {
		errs = append(errs, conn.nc.Close())
	}
	return errors.Join(errs...)
}

// Run loads the server for that time, and waits for the last answers. An error means that the load was not as requested; requests that
// fail are counted in the result.
func (c *Client) Run(ctx context.Context, load Load, length time.Duration) (*Result, error) {
	if err := c.replaceGivenUp(ctx); err != nil {
		return nil, err
	}
	began := time.Now()
	end := began.Add(length)
	errs := make([]error, len(c.conns))
	var readers sync.WaitGroup
	for i, conn := range c.conns {
		callers := 0
		if load.Rate == 0 {
			callers = load.Callers / len(c.conns)
			if i < load.Callers%len(c.conns) {
				callers++
			}
		}
		conn.begin(load.Message, end)
		readers.Go(func() { errs[i] = conn.serve(callers, load.Rate > 0) })
	}
	if load.Rate > 0 {
		pace(ctx, c.conns, load.Rate, began, end)
	}
	readers.Wait()
	elapsed := time.Since(began)
	if load.Rate > 0 {
		elapsed = min(elapsed, length) // what is answered later was offered in this time
	}
	return merge(c.conns, elapsed), errors.Join(errors.Join(errs...), ctx.Err())
}

// replaceGivenUp replaces connections on which requests had no answer in time.
func (c *Client) replaceGivenUp(ctx context.Context) error {
	for i, old := range c.conns {
		if !old.givenUp {
			continue
		}
		conn, err := dial(ctx, c.address, uint64(i))
		if err != nil {
			return fmt.Errorf("connect to %s: %w", c.address, err)
		}
		c.conns[i] = conn
		_ = old.nc.Close() // its requests are counted
	}
	return nil
}

// pace sends requests on schedule, to one connection after the other.
func pace(ctx context.Context, conns []*conn, rate float64, began, end time.Time) {
	due := func(i int) time.Time { return began.Add(time.Duration(float64(i) * 1e9 / rate)) }
	for i := 0; due(i).Before(end) && ctx.Err() == nil; {
		sleepUntil(due(i))
		first, now := i, time.Now()
		for ; !due(i).After(now) && due(i).Before(end); i++ {
			conns[i%len(conns)].schedule(due(i))
		}
		for j := range min(i-first, len(conns)) {
			conns[(first+j)%len(conns)].flush()
		}
	}
	for _, conn := range conns {
		conn.endSchedule()
	}
}
