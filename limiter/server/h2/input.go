package h2

import (
	"context"
	"errors"
	"net"
	"time"

	"golang.org/x/net/http2"
)

// Sizes of read buffers, in bytes. A connection that sends more at a time gets a larger one, so that idle connections take little memory.
const minRead, maxRead = 2 << 10, 32 << 10

// checkInterval is the time between the checks of a connection that has calls, or has had some since the last check.
const checkInterval = time.Second

// input reads a connection with a buffer that grows as long as reads fill it. The deadline of a read is the time of the next check.
type input struct {
	conn *conn
	data []byte // read and not used
	buf  []byte

	whole    bool // nothing of the next frame was used, and no header block is open
	lastRead time.Time
	pinged   time.Time // when the server sent a ping, if it has received nothing since
	next     time.Time // the next check; zero during the handshakes
	busy     bool      // there were new calls or a larger buffer since the last check
	used     bool      // the same, before the last check and since the buffers were freed
}

// Read implements io.Reader. It writes what the connection has to write before it waits for the client.
func (i *input) Read(p []byte) (int, error) {
	if len(i.data) == 0 {
		if err := i.fill(); err != nil {
			return 0, err
		}
	}
	n := copy(p, i.data)
	i.data = i.data[n:]
	i.whole = false
	return n, nil
}

func (i *input) fill() error {
	if i.buf == nil {
		i.buf = make([]byte, minRead)
	}
	for {
		i.conn.flush()
		if i.busy && i.next.Sub(i.lastRead) > checkInterval {
			i.schedule(i.lastRead, true)
		}
		n, err := i.conn.nc.Read(i.buf)
		i.data = i.buf[:n]
		if n > 0 {
			i.grow(n)
			return nil // the next Read returns the error again
		}
		if timeout, ok := errors.AsType[net.Error](err); !ok || !timeout.Timeout() || i.next.IsZero() || time.Now().Before(i.next) {
			return err //nolint:wrapcheck // it is that of the connection
		}
		if err := i.check(); err != nil {
			return err
		}
	}
}

// grow accounts for n bytes that were read.
func (i *input) grow(n int) {
	i.lastRead, i.pinged = time.Now(), time.Time{}
	if n == len(i.buf) && n < maxRead {
		i.buf, i.busy = make([]byte, min(4*n, maxRead)), true
	}
}

// schedule sets the time of the next check.
func (i *input) schedule(now time.Time, frequent bool) {
	o := &i.conn.server.options
	next := i.lastRead.Add(o.KeepaliveAfter)
	if !i.pinged.IsZero() {
		next = i.pinged.Add(o.KeepaliveTimeout)
	}
	if soon := now.Add(checkInterval); frequent && soon.Before(next) {
		next = soon
	}
	i.next = next
	i.conn.mu.Lock()
	defer i.conn.mu.Unlock()
	if !i.conn.closed { // then it has the deadline of its end
		_ = i.conn.raw.SetReadDeadline(next) // Read returns the error
	}
}

var (
	errSilent = errors.New("the client does not reply")
	// errIdle is returned between two frames. The connection continues.
	errIdle = errors.New("the connection is idle")
)

// check ends calls whose message did not arrive in time, frees the memory of an idle connection, and sends a ping to a silent client, or
// closes its connection.
func (i *input) check() error {
	c, now := i.conn, time.Now()
	c.expire(now)
	c.mu.Lock()
	closed, idle := c.closed, !i.busy && len(c.streams) == 0 && len(c.out) == 0 && !c.writing
	free := idle && i.used && i.whole
	if free {
		c.out, c.spare, c.blocked, c.streams = nil, nil, nil, map[uint32]*stream{}
	}
	c.mu.Unlock()
	o := &c.server.options
	switch {
	case closed:
		return net.ErrClosed
	case now.Sub(i.lastRead) < o.KeepaliveAfter:
	case i.pinged.IsZero():
		i.pinged = now
		c.ping()
	case now.Sub(i.pinged) >= o.KeepaliveTimeout:
		return errSilent
	}
	i.used, i.busy = (i.used || i.busy) && !free, false
	i.schedule(now, !idle)
	if free {
		i.buf = nil
		return errIdle
	}
	return nil
}

func (c *conn) ping() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.out = appendFrame(c.out, 8, http2.FramePing, 0, 0, make([]byte, 8)...)
}

// expire ends the calls whose deadline has passed, and whose message has not arrived or whose response waits for a window.
func (c *conn) expire(now time.Time) {
	var incomplete, blocked []*stream
	c.mu.Lock()
	for _, s := range c.streams {
		if s.ctx == nil || s.running || s.answered {
			continue
		}
		switch deadline, timed := s.ctx.Deadline(); {
		case !timed || now.Before(deadline):
		case s.ended:
			blocked = append(blocked, s)
		default:
			incomplete = append(incomplete, s)
		}
	}
	c.mu.Unlock()
	for _, s := range incomplete {
		c.fail(s, context.DeadlineExceeded)
	}
	for _, s := range blocked {
		c.abortStream(s.id, http2.ErrCodeCancel)
	}
}
