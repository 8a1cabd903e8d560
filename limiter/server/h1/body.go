package h1

import (
	"errors"
	"io"
	"time"
)

// body is the body of a request.
type body struct {
	conn    *conn
	left    int // bytes that were not read
	by      time.Time
	waiting bool // the deadline of reads is that of the body
	failure error
}

func (b *body) reset(length int64, began time.Time) {
	*b = body{conn: b.conn, left: int(length), by: began.Add(b.conn.server.rest.ReadTimeout)}
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
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// Close implements io.Closer.
func (b *body) Close() error { return nil }

// isReceived reports whether the rest of the body is in the buffer.
func (b *body) isReceived() bool { return b.left <= b.conn.end-b.conn.start }

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
