package h1

import (
	"crypto/tls"
	"errors"
	"log"
	"net"
	"sync"
	"time"
)

// handover is a listener whose connections are those that a Server does not serve itself.
type handover struct {
	net.Listener

	conns  chan net.Conn
	failed chan error
	once   sync.Once
	closed chan struct{}
}

// Accept implements net.Listener.
func (l *handover) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case err := <-l.failed:
		return nil, err
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *handover) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close() //nolint:wrapcheck // it is that listener
}

// give hands a connection over.
func (l *handover) give(c net.Conn) {
	select {
	case l.conns <- c:
	case <-l.closed:
		_ = c.Close()
	}
}

// The pauses after temporary errors of a listener, for example when there are too many open files. They are those of net/http, which would
// not take connections during its own.
const minAcceptPause, maxAcceptPause = 5 * time.Millisecond, time.Second

// survives pauses after a temporary error of the listener. It passes other errors on, and returns false.
func (l *handover) survives(err error, pause time.Duration, log *log.Logger) bool {
	if temporary, is := errors.AsType[net.Error](err); is && temporary.Temporary() { //nolint:staticcheck // nothing else reports this
		if log != nil {
			log.Printf("http: Accept error: %v; retrying in %v", err, pause)
		}
		select {
		case <-time.After(pause):
			return true
		case <-l.closed:
			return false
		}
	}
	select {
	case l.failed <- err:
	case <-l.closed:
	}
	return false
}

// handOver gives the connection to net/http, which reads first what was not answered.
func (c *conn) handOver() {
	if c.start == c.end {
		c.handover.give(c.nc)
		return
	}
	again := replay{Conn: c.nc, received: c.in[c.start:c.end]}
	if c.secured == nil {
		c.handover.give(&again)
		return
	}
	c.handover.give(&securedReplay{again, c.secured})
}

// replay is a connection that begins with what was received already.
type replay struct {
	net.Conn

	received []byte
}

// Read implements net.Conn.
func (r *replay) Read(p []byte) (int, error) {
	if len(r.received) == 0 {
		return r.Conn.Read(p) //nolint:wrapcheck // it is that connection
	}
	n := copy(p, r.received)
	if r.received = r.received[n:]; len(r.received) == 0 {
		r.received = nil // and the buffer
	}
	return n, nil
}

// CloseWrite closes the connection for writing. net/http does so after an error, so that the client can read it.
func (r *replay) CloseWrite() error {
	if half, is := r.Conn.(interface{ CloseWrite() error }); is {
		return half.CloseWrite() //nolint:wrapcheck // it is that connection
	}
	return nil
}

// securedReplay has what net/http wants to know of a connection with TLS.
type securedReplay struct {
	replay

	state *tls.ConnectionState
}

// ConnectionState returns the state of TLS.
func (r *securedReplay) ConnectionState() tls.ConnectionState { return *r.state }
