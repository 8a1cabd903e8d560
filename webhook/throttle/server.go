package throttle

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/weir-dev/weir/limiter/socket"
)

// Server is a limiter's socket for API servers.
type Server struct {
	http     *http.Server
	drain    time.Duration
	draining atomic.Bool
}

// Certificate is what is shown in a handshake. It is asked every time.
type Certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)

// NewServer returns a Server, to be started with Run. Once the context of Run is done, it takes questions for the time of
// drain.
func NewServer(door http.Handler, certificate Certificate, drain time.Duration, log *slog.Logger) *Server {
	s := &Server{drain: drain}
	s.http = socket.NewHTTP(door, s.draining.Load, log)
	s.http.Protocols.SetHTTP1(true)
	s.http.Protocols.SetHTTP2(true)
	s.http.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: certificate}
	return s
}

// Run serves on listener, which it closes, until ctx is done; then it takes questions for the time of drain, and lets those
// under way finish. The error is nil after a clean end. A Server runs once.
func (s *Server) Run(ctx context.Context, listener net.Listener) error {
	failed := make(chan error, 1)
	go func() { failed <- s.serve(listener) }()
	cause := socket.Drain(ctx, s.drain, func() { s.draining.Store(true) }, failed)
	return errors.Join(cause, socket.StopHTTP(s.http))
}

func (s *Server) serve(listener net.Listener) error {
	if err := s.http.ServeTLS(listener, "", ""); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve API servers on %s: %w", listener.Addr(), err)
	}
	return nil
}
