package h1

import (
	"errors"
	"io"
	"sync/atomic"
	"time"
)

// body is the body of a request.
type body struct {
	conn    *conn
	left    int // bytes that were not read
	by      time.Time
	waiting bool // the deadline of reads is that of the body
	failure error
	// received is set when the rest of the body is in the buffer, which has room for more: then the handler does not read the connection.
	received atomic.Bool
}

func (b *body) reset(length int64, began time.Time) {
	b.left, b.by = int(length), began.Add(b.conn.server.rest.ReadTimeout)
	b.waiting, b.failure = false, nil
	b.update()
}

func (b *body) update() {
	c := b.conn
	b.received.Store(b.left <= c.end-c.start && c.end < len(c.in))
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	c := b.conn
	if b.failure != nil {
		return 0, b.failure
	}
	if b.left == 0 {
		return 0, io.EOF
	}
	if c.start == c.end {
		if err := b.fill(); err != nil {
			b.failure = err
			return 0, err
		}
	}
	n := copy(p, c.in[c.start:min(c.end, c.start+b.left)])
	c.start += n
	b.left -= n
	if b.left == 0 {
		return n, io.EOF
	}
	return n, nil
}

// fill waits for more of the body.
func (b *body) fill() error {
	c := b.conn
	if !b.waiting {
		b.waiting = true
		c.setRead(b.by)
	}
	c.start, c.end = 0, 0
	err := c.fill()
	b.update()
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// Close implements io.Closer.
func (b *body) Close() error { return nil }

// discard reads what the handler has not read. It returns false if that fails, so that no other request can follow.
func (b *body) discard() bool {
	if b.failure != nil {
		return false
	}
	for b.left > 0 {
		if b.conn.start == b.conn.end && b.fill() != nil {
			return false
		}
		n := min(b.left, b.conn.end-b.conn.start)
		b.conn.start += n
		b.left -= n
	}
	return true
}
