package redisclient

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"
)

// pipe returns both ends of a TCP connection. The first is a lateConn with that timeout.
func pipe(t *testing.T, timeout time.Duration) (late *lateConn, peer net.Conn) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	conn, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if peer, err = listener.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = conn.Close(), peer.Close() })
	return newLateConn(conn, timeout), peer
}

// send writes b from one end to the other.
func send(t *testing.T, from net.Conn, b string) {
	t.Helper()
	if _, err := from.Write([]byte(b)); err != nil {
		t.Fatal(err)
	}
}

// A process that was not scheduled before the deadline finds the reply in the socket.
func TestLateConn_ReadsAReplyThatArrivedWhileThisProcessWasLate(t *testing.T) {
	conn, peer := pipe(t, 20*time.Second)
	send(t, peer, "reply")
	if err := conn.SetReadDeadline(time.Now().Add(-5 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Conn.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("a connection of package net: %v, want a timeout", err)
	}
	b := make([]byte, 5)
	if n, err := conn.Read(b); err != nil || string(b[:n]) != "reply" {
		t.Errorf("read %q, %v, want the reply", b[:n], err)
	}
}

func TestLateConn_GivesThePeerHalfOfTheTimeoutAfterTheWrite(t *testing.T) {
	const timeout = 200 * time.Millisecond
	conn, peer := pipe(t, timeout)
	if err := conn.SetReadDeadline(time.Now()); err != nil { // the process used up the time before it wrote
		t.Fatal(err)
	}
	send(t, conn, "call")
	written := time.Now()
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("%v, want a timeout", err)
	}
	if took := time.Since(written); took < timeout/2-time.Millisecond {
		t.Errorf("the peer had %v to answer, want half of %v", took, timeout)
	}
	send(t, peer, "reply") // the next call can have a deadline again
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if n, err := conn.Read(make([]byte, 5)); n == 0 || err != nil {
		t.Errorf("read %d bytes, %v", n, err)
	}
}

func TestExtension(t *testing.T) {
	const ms = time.Millisecond
	for name, test := range map[string]struct{ late, answering, want time.Duration }{
		"in time, and the peer had its time": {0, 50 * ms, 0},
		"the peer had half of its time":      {0, 25 * ms, 0},
		"the peer had less":                  {0, 10 * ms, 15 * ms},
		"late":                               {8 * ms, 58 * ms, 8 * ms},
		"late, and the peer had less":        {8 * ms, 10 * ms, 15 * ms},
		"stopped for long":                   {10_000 * ms, 10_000 * ms, 25 * ms},
	} {
		t.Run(name, func(t *testing.T) {
			if got := extension(test.late, test.answering, 50*ms); got != test.want {
				t.Errorf("%v, want %v", got, test.want)
			}
		})
	}
}

// An outage is found out within the timeout and little more.
func TestLateConn_TimesOutIfThePeerDoesNotAnswer(t *testing.T) {
	const timeout = 100 * time.Millisecond
	conn, _ := pipe(t, timeout)
	send(t, conn, "call")
	began := time.Now()
	if err := conn.SetReadDeadline(began.Add(timeout)); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("%v, want a timeout", err)
	}
	if took := time.Since(began); took < timeout || took > timeout+maxExtensions*timeout/2+timeout {
		t.Errorf("a timeout of %v took %v", timeout, took)
	}
}

func TestLateConn_WritesAfterTheDeadline(t *testing.T) {
	conn, peer := pipe(t, 20*time.Second)
	if err := conn.SetDeadline(time.Now().Add(-time.Second)); err != nil {
		t.Fatal(err)
	}
	send(t, conn, "call")
	b := make([]byte, 4)
	if _, err := io.ReadFull(peer, b); err != nil || string(b) != "call" {
		t.Errorf("the peer got %q, %v", b, err)
	}
}

// readsConn is a connection that counts its Reads, and returns the same from each.
type readsConn struct {
	net.Conn

	n     int
	err   error
	reads int
}

func (c *readsConn) SetReadDeadline(time.Time) error { return nil }
func (c *readsConn) Read([]byte) (int, error) {
	c.reads++
	return c.n, c.err
}

// A second Read after one with data would take the beginning of the next reply, or block.
func TestLateConn_ReadsAgainOnlyAfterATimeoutWithoutData(t *testing.T) {
	for name, test := range map[string]struct {
		n    int
		err  error
		want int
	}{
		"data":             {3, nil, 1},
		"data and timeout": {3, os.ErrDeadlineExceeded, 1},
		"closed":           {0, io.EOF, 1},
		"timeout":          {0, os.ErrDeadlineExceeded, 1 + 3},
	} {
		t.Run(name, func(t *testing.T) {
			inner := &readsConn{n: test.n, err: test.err}
			conn := newLateConn(inner, time.Hour)
			if err := conn.SetReadDeadline(time.Now().Add(-time.Minute)); err != nil {
				t.Fatal(err)
			}
			if n, err := conn.Read(make([]byte, 8)); n != test.n || !errors.Is(err, test.err) || inner.reads != test.want {
				t.Errorf("%d bytes, %v after %d reads, want %d, %v after %d", n, err, inner.reads, test.n, test.err, test.want)
			}
		})
	}
}
