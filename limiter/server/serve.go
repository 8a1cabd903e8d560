package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/weir-dev/weir/limiter/socket"
)

// Server is a limiter's sockets. All fields are required but Drain.
type Server struct {
	// Check serves callers on CheckListener, Ops those who run the limiter on OpsListener.
	Check, Ops                 http.Handler
	CheckListener, OpsListener net.Listener
	// Readiness is told when the limiter drains.
	Readiness *Readiness
	// Drain is for how long requests are still taken after the context of Run is done: as long as it takes until
	// load balancers have seen that the limiter is no longer ready.
	Drain time.Duration
	Log   *slog.Logger
}

// Run serves until ctx is done, then drains: it is not ready any more, takes requests for Drain, lets those under way
// finish, and closes the ops socket last. It closes the listeners. The error is nil after a clean drain.
func (s *Server) Run(ctx context.Context) error {
	check, ops := s.http(s.Check), s.http(s.Ops)
	failed := make(chan error, 2)
	go func() { failed <- serve(check, s.CheckListener) }()
	go func() { failed <- serve(ops, s.OpsListener) }()
	cause := socket.Drain(ctx, s.Drain, func() {
		s.Log.Info("draining", "for", s.Drain)
		s.Readiness.drain()
	}, failed)
	s.Readiness.drain() // of a socket that failed, too
	return errors.Join(cause, socket.StopHTTP(check), socket.StopHTTP(ops))
}

func serve(server *http.Server, listener net.Listener) error {
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve on %s: %w", listener.Addr(), err)
	}
	return nil
}

// http speaks HTTP/1.1 and, for callers that know, HTTP/2 without TLS.
func (s *Server) http(handler http.Handler) *http.Server {
	server := socket.NewHTTP(handler, s.Readiness.draining.Load, s.Log)
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	return server
}
