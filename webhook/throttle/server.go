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
)

// Time-outs of the socket. An API server asks within milliseconds and waits for seconds; it closes a connection that it has
// not used for 90 seconds, before this side does.
const (
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 10 * time.Second
	writeTimeout      = 30 * time.Second
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 32 << 10
	// stopTimeout is how long questions under way may take once no new ones are taken.
	stopTimeout = 10 * time.Second
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
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	s.http = &http.Server{
		Handler:           s.closing(door),
		Protocols:         protocols,
		TLSConfig:         &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: certificate},
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
	return s
}

// Run serves on listener, which it closes, until ctx is done; then it takes questions for the time of drain, and lets those
// under way finish. The error is nil after a clean end. A Server runs once.
func (s *Server) Run(ctx context.Context, listener net.Listener) error {
	failed := make(chan error, 1)
	go func() { failed <- s.serve(listener) }()
	var cause error
	select {
	case cause = <-failed:
	case <-ctx.Done():
		s.draining.Store(true)
		cause = wait(s.drain, failed)
	}
	return errors.Join(cause, s.stop())
}

func (s *Server) serve(listener net.Listener) error {
	if err := s.http.ServeTLS(listener, "", ""); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve API servers on %s: %w", listener.Addr(), err)
	}
	return nil
}

// wait returns after d, or earlier with the error of a socket that fails.
func wait(d time.Duration, failed <-chan error) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case err := <-failed:
		return err
	case <-timer.C:
		return nil
	}
}

// stop takes no more connections and waits for the questions under way, within stopTimeout.
func (s *Server) stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	if err := s.http.Shutdown(ctx); err != nil {
		return errors.Join(fmt.Errorf("questions of API servers were cut off after %v: %w", stopTimeout, err), s.http.Close())
	}
	return nil
}

// closing makes API servers, which keep connections open, look for another limiter while this one drains.
func (s *Server) closing(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.draining.Load() {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}
