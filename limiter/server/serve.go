package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/weir-dev/weir/limiter/socket"
)

// Server has the HTTP servers of a limiter. All fields except TLS and Drain are required.
type Server struct {
	// Check serves callers on CheckListener. Ops serves monitoring on OpsListener.
	Check, Ops                 http.Handler
	CheckListener, OpsListener net.Listener
	// TLS enables TLS on CheckListener.
	TLS *tls.Config
	// Readiness changes to not ready when the limiter drains.
	Readiness *Readiness
	// Drain is how long the server keeps accepting requests after the context of Run is done. Load balancers need this time to
	// notice that the limiter is no longer ready.
	Drain time.Duration
	Log   *slog.Logger
}

// Run serves until ctx is done, then drains: it reports not ready, accepts requests for Drain, waits for requests in flight, and
// closes the ops server last. It closes the listeners. The error is nil after a clean drain.
func (s *Server) Run(ctx context.Context) error {
	check, listener := s.check()
	ops := s.http(s.Ops)
	failed := make(chan error, 2)
	go func() { failed <- serve(check, listener) }()
	go func() { failed <- serve(ops, s.OpsListener) }()
	cause := socket.Drain(ctx, s.Drain, func() {
		s.Log.Info("draining", "for", s.Drain)
		s.Readiness.drain()
	}, failed)
	s.Readiness.drain() // also after a server failed
	return errors.Join(cause, socket.StopHTTP(check), socket.StopHTTP(ops))
}

func serve(server *http.Server, listener net.Listener) error {
	start := server.Serve
	if server.TLSConfig != nil {
		start = func(l net.Listener) error { return server.ServeTLS(l, "", "") }
	}
	if err := start(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve on %s: %w", listener.Addr(), err)
	}
	return nil
}

// check returns the server of CheckListener, and the listener that it serves.
func (s *Server) check() (*http.Server, net.Listener) {
	server := s.http(s.Check)
	if s.TLS != nil {
		server.TLSConfig = s.TLS.Clone() // which net/http changes
		server.Protocols.SetHTTP2(true)
	}
	return server, socket.AcceptLargeHeaders(server, s.CheckListener)
}

// http returns a server for HTTP/1.1 and for HTTP/2 without TLS.
func (s *Server) http(handler http.Handler) *http.Server {
	server := socket.NewHTTP(handler, s.Readiness.draining.Load, s.Log)
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	return server
}
