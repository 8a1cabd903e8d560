package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// Time-outs of the sockets. Requests are small and answered within milliseconds; the read and write time-outs are
// there for callers that stall.
const (
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 10 * time.Second
	writeTimeout      = 30 * time.Second // a slow scrape of the metrics included
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 32 << 10
	// stopTimeout is how long requests under way may take to finish once no new ones are taken.
	stopTimeout = 10 * time.Second
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
	check, ops := s.httpServer(s.closing(s.Check)), s.httpServer(s.Ops)
	failed := make(chan error, 2)
	go func() { failed <- serve(check, s.CheckListener) }()
	go func() { failed <- serve(ops, s.OpsListener) }()

	var cause error
	select {
	case cause = <-failed:
		s.Readiness.drain()
	case <-ctx.Done():
		s.Log.Info("draining", "for", s.Drain)
		s.Readiness.drain()
		cause = wait(s.Drain, failed)
	}
	return errors.Join(cause, stop(check), stop(ops))
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

func serve(server *http.Server, listener net.Listener) error {
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve on %s: %w", listener.Addr(), err)
	}
	return nil
}

// stop takes no more connections and waits for the requests under way, within stopTimeout.
func stop(server *http.Server) error {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil {
		return errors.Join(fmt.Errorf("requests were cut off after %v: %w", stopTimeout, err), server.Close())
	}
	return nil
}

// httpServer speaks HTTP/1.1 and, for callers that know, HTTP/2 without TLS.
func (s *Server) httpServer(handler http.Handler) *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Server{
		Handler:           handler,
		Protocols:         protocols,
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(s.Log.Handler(), slog.LevelWarn),
	}
}

// closing makes callers that keep connections open look for another limiter while this one drains.
func (s *Server) closing(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.Readiness.draining.Load() {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}
