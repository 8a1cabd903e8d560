package h1

import (
	"context"
	"sync"
	"time"
)

// requestContext is the context of the requests of a connection. It is done when the client closes the connection. To notice that costs a
// goroutine and a system call, so it begins with the first call of Done: few requests wait for anything.
type requestContext struct{ conn *conn }

// Deadline implements context.Context.
func (*requestContext) Deadline() (time.Time, bool) { return time.Time{}, false }

// Value implements context.Context.
func (*requestContext) Value(any) any { return nil }

// Done implements context.Context.
func (x *requestContext) Done() <-chan struct{} { return x.conn.startWatch().gone }

// Err implements context.Context.
func (x *requestContext) Err() error {
	if w := x.conn.watch.Load(); w != nil {
		select {
		case <-w.gone:
			return context.Canceled
		default:
		}
	}
	return nil
}

// watch reads one byte of a connection while a handler runs.
type watch struct {
	start sync.Once
	gone  chan struct{} // closed when the context is done
	once  sync.Once     // closes gone
	ended chan struct{} // closed when the read has ended
	one   [1]byte
	n     int
	err   error
}

// startWatch returns the watch of the request in progress.
func (c *conn) startWatch() *watch {
	w := c.watch.Load()
	if w == nil {
		w = &watch{gone: make(chan struct{}), ended: make(chan struct{})}
		if !c.watch.CompareAndSwap(nil, w) {
			w = c.watch.Load()
		}
	}
	w.start.Do(func() {
		if !c.body.isReceived() || c.end == len(c.in) {
			close(w.ended) // the handler reads the connection, or it has sent more
			return
		}
		c.setRead(time.Time{})
		go w.run(c)
	})
	return w
}

func (w *watch) run(c *conn) {
	defer close(w.ended)
	if w.n, w.err = c.nc.Read(w.one[:]); w.err != nil {
		w.end()
	}
}

func (w *watch) end() { w.once.Do(func() { close(w.gone) }) }

// endWatch ends the watch after the handler has returned.
func (c *conn) endWatch() {
	w := c.watch.Load()
	if w == nil {
		return
	}
	_ = c.nc.SetReadDeadline(time.Unix(1, 0)) // ends the read
	<-w.ended
	w.end()
	c.watch.Store(nil)
	c.read, c.body.waiting = time.Time{}, false
	c.end += copy(c.in[c.end:], w.one[:w.n])
}
