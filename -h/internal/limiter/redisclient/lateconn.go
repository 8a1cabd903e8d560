package redisclient

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// maxExtensions bounds how often a Read extends its deadline.
	maxExtensions = 3
	// leastExtension is enough to read a reply that has arrived.
	leastExtension = time.Millisecond
)

// lateConn is a connection whose Read and Write fail with a timeout only if the peer did not answer in time, and not because
// this process was late.
//
// A connection of package net fails a Read after the deadline even if the reply arrived long before. A process without CPU
// time, or on a machine whose CPU time is stolen, would count its own pauses as failures of Redis. So after a timeout, Read
// looks once more. It waits longer if the process noticed the deadline late, by the same time, and if the peer had less than
// half of the timeout since the last Write. A Write whose deadline passed before it began is made nevertheless: whether there is
// time for a call is decided before.
type lateConn struct {
	net.Conn

	timeout   time.Duration // of a command
	began     time.Time     // of the connection
	deadline  atomic.Int64  // of Read, in nanoseconds since began
	lastWrite atomic.Int64  // end of the last Write, in nanoseconds since began

	first refusal // the first reply
}

func newLateConn(conn net.Conn, timeout time.Duration) *lateConn {
	return &lateConn{Conn: conn, timeout: timeout, began: time.Now()}
}

func (c *lateConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if n == 0 && errors.Is(err, os.ErrDeadlineExceeded) && c.SetWriteDeadline(time.Now().Add(c.timeout/2)) == nil {
		n, err = c.Conn.Write(b)
	}
	c.lastWrite.Store(int64(time.Since(c.began)))
	if isBroken(err) {
		c.readPending()
	}
	return n, c.first.explain(err)
}

// readPending reads the reply that the server sent before it closed the connection: a server that accepts no more clients writes why, and closes.
func (c *lateConn) readPending() {
	if !c.first.isOpen() || c.SetReadDeadline(time.Now().Add(leastExtension)) != nil {
		return
	}
	reply := make([]byte, maxRefusal)
	n, _ := c.Conn.Read(reply)
	c.first.add(reply[:n])
}

func (c *lateConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	for tries := 0; tries < maxExtensions && n == 0 && errors.Is(err, os.ErrDeadlineExceeded); tries++ {
		now := time.Since(c.began)
		late, answering := now-time.Duration(c.deadline.Load()), now-time.Duration(c.lastWrite.Load())
		more := extension(late, answering, c.timeout)
		if tries == 0 {
			more = max(more, leastExtension)
		}
		if more < leastExtension || c.SetReadDeadline(c.began.Add(now+more)) != nil {
			break
		}
		n, err = c.Conn.Read(b)
	}
	c.first.add(b[:n])
	return n, c.first.explain(err)
}

// extension returns how much longer a Read waits that noticed its deadline late by that time, when the peer has been
// answering for that time. It is at most half of the timeout.
func extension(late, answering, timeout time.Duration) time.Duration {
	return min(max(late, timeout/2-answering), timeout/2)
}

// SetReadDeadline implements net.Conn.
func (c *lateConn) SetReadDeadline(t time.Time) error {
	c.deadline.Store(int64(t.Sub(c.began)))
	return c.Conn.SetReadDeadline(t) //nolint:wrapcheck // as Write
}

// SetDeadline implements net.Conn.
func (c *lateConn) SetDeadline(t time.Time) error {
	c.deadline.Store(int64(t.Sub(c.began)))
	return c.Conn.SetDeadline(t) //nolint:wrapcheck // as Write
}

// SyscallConn implements syscall.Conn. With it, go-redis detects a connection that the server has closed before it uses it.
func (c *lateConn) SyscallConn() (syscall.RawConn, error) {
	conn, ok := c.Conn.(syscall.Conn)
	if !ok {
		return nil, fmt.Errorf("connection %T has no descriptor", c.Conn)
	}
	return conn.SyscallConn() //nolint:wrapcheck // as Write
}
