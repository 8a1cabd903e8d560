package adminproxy

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// start starts a server with this handler. It returns its address, a client, and a function that stops it and returns its error.
func start(t *testing.T, handler http.Handler) (address string, client *http.Client, stop func() error) {
	t.Helper()
	identity := httptest.NewTLSServer(http.NotFoundHandler()) // its certificate, and clients that trust it
	t.Cleanup(identity.Close)
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{
		Handler: handler, Listener: listener, Follow: func(context.Context) {}, Log: slog.New(slog.DiscardHandler),
		Certificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &identity.TLS.Certificates[0], nil },
	}
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	go func() { stopped <- s.Start(ctx) }()
	return listener.Addr().String(), identity.Client(), func() error {
		cancel()
		return <-stopped
	}
}

func TestServer_AnswersRequestsThatHaveBegunBeforeItStops(t *testing.T) {
	begun, end := make(chan struct{}), make(chan struct{})
	address, client, stop := start(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(begun)
		<-end
		if err := r.Context().Err(); err != nil {
			t.Error(err)
		}
	}))
	answered := make(chan error, 1)
	go func() {
		request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "https://"+address, http.NoBody)
		if err != nil {
			answered <- err
			return
		}
		response, err := client.Do(request)
		if err == nil {
			err = response.Body.Close()
		}
		answered <- err
	}()
	<-begun
	stopped := make(chan error, 1)
	go func() { stopped <- stop() }()
	for { // until it has stopped to accept connections
		c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
		if err != nil {
			break
		}
		_ = c.Close()
	}
	select {
	case err := <-stopped:
		t.Errorf("stopped while a request is served: %v", err)
	default:
	}
	close(end)
	if err := errors.Join(<-answered, <-stopped); err != nil {
		t.Error(err)
	}
}

func TestServer_ReportsThatItCannotServe(t *testing.T) {
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	s := &Server{Listener: listener, Follow: func(context.Context) {}, Log: slog.New(slog.DiscardHandler)}
	if err := s.Start(t.Context()); err == nil || !strings.HasPrefix(err.Error(), "serve the admin endpoint: ") {
		t.Errorf("%v", err)
	}
}
