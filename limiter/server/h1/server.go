package h1

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Server serves the connections of a listener, together with an http.Server.
type Server struct {
	rest    *http.Server // serves what this server hands over
	tls     *tls.Config  // nil disables TLS
	date    atomic.Pointer[date]
	running sync.WaitGroup // the goroutines of connections

	mu       sync.Mutex
	conns    map[*conn]struct{}
	stopping atomic.Bool // changes with mu
}

// New returns a Server with the handler, the timeouts, the protocols and the TLS configuration of rest. The timeouts are required. Nothing else may
// use rest. A request, its header and its URL are valid until the handler returns. The handler must not change the URL, and must not hijack
// the connection or flush the response, which is sent as a whole.
func New(rest *http.Server) *Server {
	s := &Server{rest: rest, conns: map[*conn]struct{}{}}
	if rest.TLSConfig != nil {
		protocols := []string{"http/1.1"}
		if rest.Protocols.HTTP2() {
			protocols = slices.Insert(protocols, 0, "h2")
		}
		s.tls = rest.TLSConfig.Clone()
		s.tls.NextProtos = protocols
		rest.TLSConfig = s.tls.Clone() // which net/http changes
	}
	return s
}

// Serve serves the connections of listener, which it closes, until Shutdown or Close. The error is then http.ErrServerClosed.
func (s *Server) Serve(listener net.Listener) error {
	l := &handover{Listener: listener, conns: make(chan net.Conn), failed: make(chan error), closed: make(chan struct{})}
	go s.accept(l)
	return s.rest.Serve(l) //nolint:wrapcheck // this is a part of it
}

// accept starts a goroutine for each connection until the listener is closed.
func (s *Server) accept(l *handover) {
	for pause := minAcceptPause; ; {
		accepted, err := l.Listener.Accept()
		if err != nil {
			if !l.survives(err, pause, s.rest.ErrorLog) {
				return
			}
			pause = min(2*pause, maxAcceptPause)
			continue
		}
		pause = minAcceptPause
		c := newConn(s, l, accepted)
		if !s.add(c) {
			_ = accepted.Close()
			continue
		}
		go c.run()
	}
}

func (s *Server) add(c *conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping.Load() {
		return false
	}
	s.conns[c] = struct{}{}
	s.running.Add(1)
	return true
}

func (s *Server) remove(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
	s.running.Done()
}

// stop accepts no more connections and calls f for those that are open.
func (s *Server) stop(f func(*conn)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopping.Store(true)
	for c := range s.conns {
		f(c)
	}
}

// Shutdown accepts no more connections, closes those that are idle, and waits for the requests in progress until ctx is done.
func (s *Server) Shutdown(ctx context.Context) error {
	s.stop((*conn).closeIdle)
	err := s.rest.Shutdown(ctx) // closes the listener
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.running.Wait()
	}()
	select {
	case <-ended:
		return err //nolint:wrapcheck // this is a part of it
	case <-ctx.Done():
		return errors.Join(err, context.Cause(ctx))
	}
}

// Close closes all connections.
func (s *Server) Close() error {
	err := s.rest.Close() // closes the listener
	s.stop((*conn).close)
	return err //nolint:wrapcheck // this is a part of it
}

// date is the value of a Date field.
type date struct {
	second int64
	text   string
}

// dateAt returns the Date field at a time.
func (s *Server) dateAt(now time.Time) string {
	second := now.Unix()
	if d := s.date.Load(); d != nil && d.second == second {
		return d.text
	}
	d := &date{second: second, text: now.UTC().Format(http.TimeFormat)}
	s.date.Store(d)
	return d.text
}
