package redisclient

import (
	"context"
	"errors"
	"sync"

	"github.com/weir-dev/weir/limiter/wait"
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
