package adminproxy

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

// Server serves the endpoint on every replica of the operator, elected or not.
type Server struct {
	Handler http.Handler
	// Listener accepts connections without TLS.
	Listener net.Listener
	// Certificate returns the serving certificate.
	Certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// Follow keeps the CA of client certificates up to date.
	Follow func(context.Context)
	Log    *slog.Logger
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (*Server) NeedLeaderElection() bool { return false }

// Start serves until ctx is done.
func (s *Server) Start(ctx context.Context) error {
	go s.Follow(ctx)
	server := &http.Server{
		Handler:           socket.WithoutWaitingForBodies(s.Handler),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       30 * time.Second,
		WriteTimeout:      time.Minute,
		IdleTimeout:       2 * time.Minute,
		ErrorLog:          slog.NewLogLogger(s.Log.Handler(), slog.LevelDebug),
	}
	serving, stopStreams := context.WithCancel(context.WithoutCancel(ctx))
	defer stopStreams()
	server.BaseContext = func(net.Listener) context.Context { return withStreams(context.WithoutCancel(ctx), serving) }
	server.RegisterOnShutdown(stopStreams)
	listener := tls.NewListener(s.Listener, &tls.Config{
		MinVersion: tls.VersionTLS12, GetCertificate: s.Certificate,
		ClientAuth: tls.RequestClientCert, // the Authenticator verifies it
	})
	s.Log.Info("serving the admin endpoint", "admin", s.Listener.Addr())
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serve the admin endpoint: %w", err)
	case <-ctx.Done():
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*replicaTimeout+eventsTimeout)
	defer cancel()
	err := server.Shutdown(stop)
	if served := <-failed; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}
