package h1

import (
	"context"
	"sync"
	"time"
)

// requestContext is the context of a request. It is done when the client closes the connection, and when the handler has returned. To notice the
// first one costs a goroutine and a system call, so it begins with the first call of Done: few requests wait for anything.
type requestContext struct {
	conn *conn

	mu    sync.Mutex
	done  chan struct{} // nil before the first call of Done
	err   error         // set before done is closed
	watch *watch        // nil unless it reads the connection
}

// Deadline implements context.Context.
func (*requestContext) Deadline() (time.Time, bool) { return time.Time{}, false }

// Value implements context.Context.
func (*requestContext) Value(any) any { return nil }

// Done implements context.Context.
func (x *requestContext) Done() <-chan struct{} {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.done == nil {
		x.done = make(chan struct{})
		if x.err != nil {
			close(x.done)
		} else if x.conn.body.received.Load() {
			x.watch = &watch{ended: make(chan struct{})}
			_ = x.conn.nc.SetReadDeadline(time.Time{}) // then the context is done
			go x.watch.run(x)
		}
	}
	return x.done
}

// Err implements context.Context.
func (x *requestContext) Err() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.err
}

// cancel makes the context done. It returns the watch, which needs to be ended.
func (x *requestContext) cancel() *watch {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.err == nil {
		x.err = context.Canceled
		if x.done != nil {
			close(x.done)
		}
	}
	return x.watch
}

// watch reads one byte of a connection while a handler runs.
type watch struct {
	ended chan struct{} // closed when the read has ended
	one   [1]byte
	n     int
}

func (w *watch) run(x *requestContext) {
	defer close(w.ended)
	var err error
	if w.n, err = x.conn.nc.Read(w.one[:]); err != nil {
		x.cancel()
	}
}

// endContext ends the context of the request after its handler has returned.
func (c *conn) endContext() {
	if c.context == nil {
		return
	}
	w := c.context.cancel()
	c.context = nil
	if w == nil {
		return
	}
	_ = c.nc.SetReadDeadline(time.Unix(1, 0)) // ends the read
	<-w.ended
	c.read, c.body.waiting = time.Time{}, false
	c.end += copy(c.in[c.end:], w.one[:w.n])
}
