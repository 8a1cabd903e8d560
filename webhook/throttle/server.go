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

// Server serves API servers over TLS.
type Server struct {
	http     *http.Server
	drain    time.Duration
	draining atomic.Bool
}

// Certificate returns the certificate for a handshake. It is called for every handshake.
type Certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)

// NewServer returns a Server. Start it with Run. After the context of Run is done, it accepts requests for the drain time.
func NewServer(handler http.Handler, certificate Certificate, drain time.Duration, log *slog.Logger) *Server {
	s := &Server{drain: drain}
	s.http = socket.NewHTTP(handler, s.draining.Load, log)
	s.http.Protocols.SetHTTP1(true)
	s.http.Protocols.SetHTTP2(true)
	s.http.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: certificate}
	return s
}

// Run serves on listener until ctx is done, accepts requests for the drain time, and then waits for requests in flight. It closes the
// listener. The error is nil after a clean stop. Run can be called once.
func (s *Server) Run(ctx context.Context, listener net.Listener) error {
	failed := make(chan error, 1)
	go func() { failed <- s.serve(listener) }()
	cause := socket.Drain(ctx, s.drain, func() { s.draining.Store(true) }, failed)
	return errors.Join(cause, socket.StopHTTP(s.http))
}

func (s *Server) serve(listener net.Listener) error {
	if err := s.http.ServeTLS(listener, "", ""); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve the throttle endpoint on %s: %w", listener.Addr(), err)
	}
	return nil
}
